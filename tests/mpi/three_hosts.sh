#!/bin/bash
# Three network namespaces as three hosts, between which MPI has to use the network:
#   three_hosts.sh RANKS_A_HOST [--cut SECONDS HOST] PROGRAM [WORDS...]
# runs the program by mpiexec on hosts h0, h1, h2; --cut takes down the link of a host after so long. Needs root, ip and
# unshare; 77 where they do not suffice. The name of the set of namespaces is the process's number, so that several may run.
set -u
ranks=$1
shift
cut_after= cut_host=
if [[ $1 == --cut ]]; then
  cut_after=$2 cut_host=$3
  shift 3
fi
mpiexec=/usr/bin/mpiexec
for name in mpiexec.mpich mpiexec.hydra; do [[ -x /usr/bin/$name ]] && mpiexec=/usr/bin/$name && break; done

[[ $(id -u) == 0 ]] && command -v ip >/dev/null && unshare --net --uts true 2>/dev/null || exit 77
id=c$$
bridge=${id}b
scratch=$(mktemp -d)
clean() {
  for h in 0 1 2; do
    ip netns pids "${id}h$h" 2>/dev/null | xargs -r kill -9 2>/dev/null
    ip netns del "${id}h$h" 2>/dev/null
    rm -rf "/etc/netns/${id}h$h"
  done
  ip link del "$bridge" 2>/dev/null
  rm -rf "$scratch"
}
trap clean EXIT

ip link add "$bridge" type bridge 2>/dev/null && ip link set "$bridge" up || exit 77
for h in 0 1 2; do
  ip netns add "${id}h$h" || exit 77
  ip link add "${id}v$h" type veth peer name eth0 netns "${id}h$h" || exit 77
  ip link set "${id}v$h" master "$bridge" up
  ip -n "${id}h$h" address add "10.77.0.1$h/24" dev eth0
  ip -n "${id}h$h" link set eth0 up
  ip -n "${id}h$h" link set lo up
  mkdir -p "/etc/netns/${id}h$h"
  printf '127.0.0.1 localhost\n10.77.0.10 h0\n10.77.0.11 h1\n10.77.0.12 h2\n' > "/etc/netns/${id}h$h/hosts"
done

# What mpiexec takes for ssh: options, then the host, then the command.
cat > "$scratch/remote" <<EOF
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
exec ip netns exec ${id}\$host unshare --uts bash -c "hostname \$host; exec \$*"
EOF
chmod +x "$scratch/remote"
if [[ -n $cut_after ]]; then
  (sleep "$cut_after" && ip link set "${id}v${cut_host#h}" down) &
fi
export UCX_TLS=tcp UCX_HANDLE_ERRORS=none
ip netns exec "${id}h0" unshare --uts bash -c 'hostname h0; exec "$@"' run \
  "$mpiexec" -launcher ssh -launcher-exec "$scratch/remote" -hosts "h0:$ranks,h1:$ranks,h2:$ranks" -n $((3 * ranks)) \
  -genvlist TORCH_CPP_LOG_LEVEL,PATH,LD_LIBRARY_PATH,UCX_TLS,UCX_HANDLE_ERRORS,CIRRUS_TIMEOUT "$@"
