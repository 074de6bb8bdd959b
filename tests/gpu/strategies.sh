#!/usr/bin/env bash
# Every strategy of parallel training in one process on a device: losses of each step must be those of --parallel none.
#   tests/gpu/strategies.sh BUILD DEVICE
set -euo pipefail
build=$(cd "$1" && pwd -P) device=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

# Networks of a few thousand parameters; sr3 is one of many units.
common='factor = 4
[task]
patch = 32
[fields]
size = 64
window = 4
per_step = 0.5
[train]
steps = 6
batch = 4
accumulation = 2
record_steps = 1
[optimizer]
warmup = 5
cooldown_share = 0'
printf '%s\n[network]\nwidths = [8, 16]\nmiddle_blocks = 1\nembedding = 8\n' "${common/'patch = 32'/$'patch = 32\ncalibration_fields = 16'}" >edm.toml
printf '%s\n[network]\nkind = "sr3"\n[sr3]\ninner = 8\nmultipliers = [1, 2]\nblocks = 1\nattention_level = 1\ngroups = 4\n' "$common" >sr3.toml

failed=0
losses() { sed -E 's/.*"loss":([^,}]*).*/\1/' "$1/train.jsonl"; }
for kind in edm sr3; do
  for how in none ddp zero1 zero2 zero3 fsdp hybrid 'fsdp recompute'; do
    read -r strategy recompute <<<"$how"
    out=$kind-${how// /-}
    if ! "$build/bin/cirrus" train --config $kind.toml --device "$device" --dtype fp32 --threads 1 --parallel "$strategy" \
      --set "train.recompute=$([[ -n $recompute ]] && echo true || echo false)" --out "$out" --quiet >/dev/null 2>"$out.err"; then
      echo "$kind, $how: $(tail -n 1 "$out.err")" >&2
      failed=1
    elif ! paste <(losses $kind-none) <(losses "$out") | awk 'NF != 2 || ($1 - $2)^2 > (1e-3 * $1)^2 {bad = 1} END {exit bad || NR != 6}'; then
      echo "$kind, $how: losses differ from those of none:" >&2
      paste <(losses $kind-none) <(losses "$out") >&2
      failed=1
    fi
  done
done
exit $failed
