#!/usr/bin/env bash
# Sets Cirrus up on Debian 12 or newer, or Ubuntu 24.04 or newer: system packages, LibTorch under .deps/, build.
# It can be run again at any time: what is there is kept, and nothing is downloaded twice. `./bootstrap.sh --help` says more.
set -euo pipefail

readonly torch_version=2.11.0
readonly cuda_packages=('nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cupti==13.0.*') # libtorch_cpu of PyPI's wheel links them
readonly packages=(g++ cmake ninja-build ccache pkg-config git mpich libmpich-dev libcfitsio-dev wcslib-dev
  libopencv-core-dev libopencv-imgproc-dev libopencv-imgcodecs-dev libboost-test-dev nlohmann-json3-dev libspdlog-dev
  libfmt-dev libtomlplusplus-dev fitsverify)
readonly optional_packages=(python3-dev) # for the bridge to Gaudi's collectives; without it that is neither built nor tested

usage() {
  cat <<'END'
usage: ./bootstrap.sh [demo|test] [--jobs N] [--cuda] [--offline]

  (no word)   install what is needed and build the programs into build/bin
  demo        the same, then sharpen a small dust map with known truth, in demo/
  test        the same, then build and run the tests

  --jobs N    compile N files at a time (default: by cores and memory)
  --cuda      for NVIDIA GPUs: LibTorch with all of CUDA's libraries (3 GB), built in build-cuda/; needs nvcc
              (without --cuda the module for GPUs is built where nvcc is, but loads only with those libraries)
  --offline   download nothing: fail if something is missing

Exit codes: 0 done, 1 a test failed, 64 usage, 69 something cannot be installed or downloaded here, 70 a step failed.
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
logs=$root/.cache/bootstrap
goal=build jobs='' cuda=no offline=no

fail() { # CODE MESSAGE...
  printf 'bootstrap: %s\n' "${@:2}" >&2
  exit "$1"
}

while (($#)); do
  case $1 in
    demo | test) goal=$1 ;;
    --jobs) jobs=${2:-} && shift ;;
    --jobs=*) jobs=${1#*=} ;;
    --cuda) cuda=yes ;;
    --offline) offline=yes ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && fail 64 "unknown word '$1'" ;;
  esac
  shift || fail 64 "--jobs needs a number"
done
[[ -z $jobs || $jobs =~ ^[1-9][0-9]{0,3}$ ]] || fail 64 "--jobs '$jobs' is not a positive number"
[[ $cuda == no ]] || command -v nvcc >/dev/null || [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]] ||
  fail 69 "no nvcc here: install NVIDIA's CUDA toolkit 13.0 or newer, or name its folder in CUDA_HOME; or leave --cuda out"
preset=debian-cpu build=$root/build
if [[ $cuda == yes ]]; then preset=debian-cuda build=$root/build-cuda; fi

# A compilation takes up to 1.5 GB of memory.
if [[ -z $jobs ]]; then
  fit=$(awk '/^MemAvailable:/ {print int($2 / 1.5e6)}' /proc/meminfo)
  cores=$(nproc)
  jobs=$((fit < 1 ? 1 : fit < cores ? fit : cores))
fi

count=0 log=''
# step NAME REMEDY COMMAND...: one line on the terminal, the command's own output in a log, its end and a remedy if it fails.
step() {
  local name=$1 remedy=$2 start=$SECONDS status
  count=$((count + 1))
  log=$logs/$count-${name%%[ :]*}.log
  printf '%-64s' "[$count/$steps] $name"
  set +e
  (set -e && "${@:3}") >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if ((status == 0)); then
    printf ' %4d s\n' $((SECONDS - start))
    return
  fi
  printf ' failed after %d s\n' $((SECONDS - start))
  if ((status != 69)); then
    printf '%s\n' "--- the last lines of $log"
    tail -n 20 "$log"
    printf '%s\n' "---"
  else
    sed -n '/^bootstrap: /p' "$log"
  fi >&2
  printf 'bootstrap: %s\n' "$remedy" >&2
  exit $((status == 69 || status == 130 ? status : 70))
}

# ---- system packages

has_package() { [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) == 'install ok installed' ]]; }

# What the build can do without is asked for once and not insisted on.
optional_system_packages() {
  local missing=() package
  for package in "${optional_packages[@]}"; do has_package "$package" || missing+=("$package"); done
  ((${#missing[@]})) && [[ $offline == no ]] && ((EUID == 0)) || return 0
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
    echo "going on without ${missing[*]}"
}

has_pip() { python3 -m pip --version >/dev/null 2>&1 || python3 -c 'import ensurepip, venv' 2>/dev/null; }

system_packages() {
  local missing=() package elevate=()
  command -v apt-get >/dev/null && command -v dpkg-query >/dev/null ||
    fail 69 "no apt-get here; Cirrus needs the equivalents of: ${packages[*]} python3"
  for package in "${packages[@]}"; do has_package "$package" || missing+=("$package"); done
  command -v python3 >/dev/null || missing+=(python3)
  has_libtorch || has_pip || missing+=(python3-venv)
  if ((${#missing[@]} == 0)); then
    optional_system_packages
    return
  fi
  [[ $offline == no ]] || fail 69 "missing, and --offline forbids installing: ${missing[*]}"
  if ((EUID != 0)); then
    command -v sudo >/dev/null && sudo true || # a password is asked for on the terminal
      fail 69 "missing packages: run" "  sudo apt-get install ${missing[*]}" "and start again"
    elevate=(sudo)
  fi
  echo "installing ${missing[*]}"
  "${elevate[@]}" apt-get update || echo "apt-get update failed: going on with the lists there are"
  "${elevate[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  optional_system_packages
}

# ---- LibTorch

has_libtorch() {
  [[ -e $root/.deps/torch/lib/libtorch_cpu.so && -d $root/.deps/torch-$torch_version.dist-info ]] || return 1
  if [[ $cuda == yes ]]; then
    compgen -G "$root/.deps/nvidia/*/lib/libcudnn.so*" >/dev/null
  else
    compgen -G "$root/.deps/nvidia/*/lib/libcudart.so*" >/dev/null
  fi
}

libtorch() {
  has_libtorch && return
  [[ $offline == no ]] || fail 69 "LibTorch $torch_version is not under .deps/, and --offline forbids downloading it"
  local python=python3 new=$root/.deps.new what=("torch==$torch_version" typing_extensions "${cuda_packages[@]}") alone=(--no-deps)
  local version
  [[ $cuda == no ]] || what=("torch==$torch_version") alone=()
  rm -rf "$new"
  if ! python3 -m pip --version >/dev/null 2>&1; then # Debian's python3 comes without pip: a throw-away environment has it
    python3 -m venv "$root/.cache/bootstrap/venv"
    python=$root/.cache/bootstrap/venv/bin/python
  fi
  # Programs use the C++ library in the wheel alone, which is the same for any Python; the bridge to Gaudi's collectives, where
  # it is built, also the Python half: so that of this machine's Python, if there is one.
  version=$(python3 -c 'import sys; print("3.%d" % sys.version_info[1])')
  [[ $version =~ ^3\.1[0-4]$ ]] || version=3.12
  PIP_USER=0 "$python" -m pip install --disable-pip-version-check --no-compile --only-binary=:all: --python-version "$version" \
    "${alone[@]}" --target "$new" "${what[@]}"
  rm -rf "$root/.deps" "$root/.cache/bootstrap/venv"
  mv "$new" "$root/.deps"
}

# ---- build, demo, tests

configure() { cd "$root" && cmake --preset "$preset"; }
compile() { cmake --build "$build" -j "$jobs" "$@"; }

demo_command() { cd "$root/demo" && "$build/bin/$1" "${@:2}"; }

demo() {
  local error sick="this should not happen: please report it with the log above"
  mkdir -p "$root/demo"
  step 'cirrus-data synth -o truth.fits ...' "$sick" demo_command cirrus-data synth -o truth.fits --size 256 \
    --family mixed --pixel 3arcsec --seed 6 --overwrite
  step 'cirrus-data degrade truth.fits --factor 4 ...' "$sick" demo_command cirrus-data degrade truth.fits -o observed.fits \
    --factor 4 --beam-out 27.6arcsec --noise 0.01 --overwrite
  step 'cirrus enhance observed.fits' "is there a model in models/?" demo_command cirrus enhance observed.fits --overwrite
  step 'cirrus evaluate --pair observed.fits truth.fits ...' "$sick" demo_command cirrus evaluate \
    --pair observed.fits truth.fits -o report.html --overwrite
  error=$(awk '$2 == "mean" {print $3}' "$log")
  cat <<END

The map      $root/demo/observed_x4.fits
The picture  $root/demo/observed_x4.png
The report   $root/demo/report.html
The rms error of the map is ${error:-?} of a bicubic enlargement's; the report says more.

Next: sharpen a map of your own with
  "$build/bin/cirrus" enhance MAP.fits
docs/guide.md says how to read what it writes.
END
}

run_tests() {
  echo
  cd "$root"
  ctest --test-dir "$build" -L 'unit|cli' -LE slow --output-on-failure -j "$jobs" || {
    echo "bootstrap: a test failed; ctest --test-dir '$build' --rerun-failed --output-on-failure runs it again" >&2
    exit 1
  }
}

steps=4
[[ $goal != demo ]] || steps=8
mkdir -p "$logs"
rm -f "$logs"/*.log

step 'packages of the system' "install the packages named above, or ask who administers this machine" system_packages
step "LibTorch $torch_version under .deps/ (0.5 GB at first)" \
  "python3 -m pip must reach PyPI; or put LibTorch $torch_version under .deps/ from a machine that does" libtorch
step "configure ($preset)" "if build folders were moved or hold other settings: rm -rf '$build' and start again" configure
if [[ $goal == test ]]; then
  step "build programs and tests ($jobs at a time)" "if memory ran out, use --jobs 1" compile
  run_tests
else
  step "build the programs ($jobs at a time)" "if memory ran out, use --jobs 1" compile --target cirrus cirrus-data cirrus-scale cirrus_modules
fi
case $goal in
  demo) demo ;;
  build) printf '\nNext: ./bootstrap.sh demo shows what Cirrus does; "%s" enhance MAP.fits does it.\n' "$build/bin/cirrus" ;;
esac
