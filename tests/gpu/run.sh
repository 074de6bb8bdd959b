#!/usr/bin/env bash
# What only a machine with an NVIDIA GPU can tell: the suites of kernels and devices on the card, every strategy of training, NCCL's
# collectives where there are two cards, then the benchmark, as one JSON object. Takes less than eight minutes beside the build.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/gpu/run.sh [--build DIR] [--jobs N] [-o FILE] [--seconds S]

  --build DIR   a build folder of Cirrus with the CUDA module (default: configure and build one in build-gpu/)
  --jobs N      compile N files at a time (default: all cores)
  -o FILE       where the JSON object goes (default: gpu.json in the build folder)
  --seconds S   time for tests and benchmark together (default: 480)

Exit codes: 0 all passed, 1 a test or the benchmark failed, 64 usage, 69 no GPU can be used here (the reason is printed),
70 the build failed.
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
build='' jobs=$(nproc) out='' seconds=480
while (($#)); do
  case $1 in
    --build) build=${2:-} && shift ;;
    --jobs) jobs=${2:-} && shift ;;
    -o) out=${2:-} && shift ;;
    --seconds) seconds=${2:-} && shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 64 ;;
  esac
  shift || { usage >&2 && exit 64; }
done
[[ $jobs =~ ^[1-9][0-9]*$ && $seconds =~ ^[1-9][0-9]*$ ]] || { usage >&2 && exit 64; }

targets=(cirrus test_kernels test_device test_gpu module_probe collectives_probe cirrus_modules)
if [[ -f $root/tests/gpu/gpu_benchmark.cpp ]]; then targets+=(gpu_benchmark); fi
if [[ -z $build ]]; then
  build=$root/build-gpu
  mkdir -p "$build"
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCIRRUS_CUDA=ON >"$build/configure.log" 2>&1 || {
    tail -n 20 "$build/configure.log" >&2
    exit 70
  }
  cmake --build "$build" -j "$jobs" --target "${targets[@]}" || exit 70
fi
build=$(cd "$build" && pwd -P)
out=${out:-$build/gpu.json}
logs=$build/gpu-logs
mkdir -p "$logs" "$(dirname "$out")"

# ---- is there a card?

export CIRRUS_MODULE_PATH=$build/lib/cirrus CIRRUS_TEST_DEVICE=cuda
started=$SECONDS
left() { echo $((seconds - (SECONDS - started) > 5 ? seconds - (SECONDS - started) : 5)); }
"$build/bin/module_probe" opens "$build/lib/cirrus/libcirrus_cuda.so" >"$logs/card.log" 2>&1 || true
cat "$logs/card.log"
if ! grep -q '^compute capability' "$logs/card.log"; then exit 69; fi
"$build/bin/module_probe" loads "$build/lib/cirrus/libcirrus_cuda.so" 2>&1 | tee "$logs/module.log" || exit 1
cards=$(sed -nE 's/^cuda: ([0-9]+) card.*/\1/p' "$logs/module.log")

# ---- suites, each by itself: one that crashes the card's context takes no other with it

# suite NAME: CTest's entries of one program, on the card; adds "NAME": {...} to the results.
results='' failed=0
suite() {
  local name=$1 begin=$SECONDS status=0
  timeout "$(left)" ctest --test-dir "$build" -R "^$name\\." -LE slow --output-on-failure >"$logs/$name.log" 2>&1 || status=$?
  local total bad
  total=$(grep -cE '^ *[0-9]+/[0-9]+ Test ' "$logs/$name.log" || true)
  bad=$(grep -E '^ *[0-9]+/[0-9]+ Test ' "$logs/$name.log" | grep -vcE 'Passed|Skipped' || true)
  printf '%-10s %3d entries, %d failed, %d s\n' "$name" "$total" "$bad" $((SECONDS - begin))
  results+="\"$name\": {\"exit_code\": $status, \"entries\": $total, \"failed\": $bad, \"seconds\": $((SECONDS - begin))}, "
  if ((status != 0)); then
    failed=1
    grep -E 'error: in|\*\*\*Failed|Exception' "$logs/$name.log" | head -n 40 >&2 || true
  fi
}
suite kernels
suite device

# ---- every strategy of parallel training, alone on the card

begin=$SECONDS status=0
timeout "$(left)" "$root/tests/gpu/strategies.sh" "$build" cuda >"$logs/strategies.log" 2>&1 || status=$?
printf '%-10s %s, %d s\n' strategies "$( ((status == 0)) && echo passed || echo failed)" $((SECONDS - begin))
results+="\"strategies\": {\"exit_code\": $status, \"seconds\": $((SECONDS - begin))}, "
if ((status != 0)); then
  failed=1
  tail -n 20 "$logs/strategies.log" >&2
fi

# ---- collectives: two processes, a card each, without MPI

# pair NAME VARIABLE=VALUE: the probe's checks; its stdout is in NAME.log.
pair() {
  local name=$1 port=$((20000 + $$ % 20000)) status=0 first
  local settings=(WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "MASTER_PORT=$port" "$2")
  local probe=(timeout "$(left)" "$build/bin/collectives_probe" cuda check groups large)
  env "${settings[@]}" RANK=0 LOCAL_RANK=0 "${probe[@]}" >"$logs/$name.log" 2>"$logs/$name-0.err" &
  first=$!
  env "${settings[@]}" RANK=1 LOCAL_RANK=1 "${probe[@]}" >/dev/null 2>"$logs/$name-1.err" || status=$?
  wait "$first" || status=$?
  if ((status != 0)); then tail -n 20 "$logs/$name-0.err" "$logs/$name-1.err" >&2; fi
  return "$status"
}
word() { sed -n "s/^$1 //p" "$logs/$2.log"; }

if ((${cards:-0} < 2)); then
  echo "nccl       skipped: it needs two GPUs, and ${cards:-0} can be used here"
  results+="\"nccl\": {\"skipped\": \"needs two GPUs\"}, "
else
  begin=$SECONDS status=0
  pair nccl CIRRUS_COLLECTIVES= || status=1
  pair staged CIRRUS_COLLECTIVES=host || status=1
  if [[ $(word backend nccl) != nccl ]]; then
    echo "nccl: the backend is '$(word backend nccl)'" >&2
    status=1
  fi
  if [[ -z $(word digest nccl) || $(word digest nccl) != "$(word digest staged)" ]]; then
    echo "nccl: NCCL and host memory give different sums" >&2
    status=1
  fi
  printf '%-10s %s, %d s\n' nccl "$( ((status == 0)) && echo passed || echo failed)" $((SECONDS - begin))
  results+="\"nccl\": {\"exit_code\": $status, \"seconds\": $((SECONDS - begin))}, "
  ((status == 0)) || failed=1
fi

# ---- benchmark: prints one JSON object

benchmark=null
if [[ -x $build/bin/gpu_benchmark ]]; then
  if timeout "$(left)" "$build/bin/gpu_benchmark" >"$logs/benchmark.json" 2>"$logs/benchmark.log"; then
    benchmark=$(cat "$logs/benchmark.json")
  else
    echo "gpu_benchmark failed: the end of $logs/benchmark.log is" >&2
    tail -n 20 "$logs/benchmark.log" >&2
    failed=1
  fi
fi

# The card and the versions, a line each: "NAME" first, then "WHAT: VERSION".
card=$(head -n 1 "$logs/card.log" | sed 's/[\\"]/\\&/g')
versions=$(tail -n +2 "$logs/card.log" | sed -E 's/[\\"]/\\&/g; s/^([^:]+): (.*)$/"\1": "\2"/' | paste -sd, -)
revision=$(git -C "$root" rev-parse HEAD 2>/dev/null || echo unknown)
cat >"$out" <<END
{"card": "$card", "versions": {$versions}, "revision": "$revision", "suites": {${results%, }}, "benchmark": $benchmark}
END
echo "wrote $out"
exit $failed
