#!/usr/bin/env bash
# Everything that needs a GPU, in one command of at most six minutes: kernel tests against the reference,
# compute-sanitizer where it is installed, benchmarks against the floor and LibTorch eager. Nothing is fetched.
#
#   cuda/device_check.sh                       builds in build-device/ (nvcc, and the packages of README.md), then checks
#   cuda/device_check.sh --package FOLDER      builds and puts all that a bare machine needs into FOLDER, checks nothing
#   FOLDER/device_check.sh                     checks with what lies beside it: no compiler, no checkout
#   --binaries FOLDER                          checks, or packs, programs that were built before
#   --out FOLDER                               where device_check.json and device_check.md go (default: out)
#
# LibTorch eager is measured by the first of .deps/venv/bin/python and python3 whose PyTorch finds the device. What cannot
# run here reads "not measured" or "not installed"; it fails nothing. Exit codes: 0 all that ran passed, 1 something
# failed, 2 wrong arguments, 4 no device.
set -uo pipefail
usage() { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }

programs=(kernel_tests_device cuda_head_tests_device cuda_bench)
here=$(cd "$(dirname "$0")" && pwd)
binaries=
package=
out=
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case "$1" in
    --binaries) binaries=$(realpath -m "$2") ;;
    --package) package=$(realpath -m "$2") ;;
    --out) out=$(realpath -m "$2") ;;
    *) usage ;;
  esac
  shift 2
done
if [ -d "$here/device" ]; then
  root=$(dirname "$here")
  eager=$here/device/eager
else  # a package
  root=$here
  eager=$here/eager
  [ -n "$binaries" ] || binaries=$here
fi
[ -n "$out" ] || out=$root/out
cd "$root" || exit 1

# build ARCHITECTURES
build() {
  cmake -S . -B build-device -G Ninja -DCMAKE_BUILD_TYPE=Release -DMTPCHECK_CUDA=ON -DMTPCHECK_TORCH=OFF \
    -DMTPCHECK_EMULATION=OFF -DMTPCHECK_CUDA_ARCHITECTURES="$1" > build-device.log 2>&1 ||
    { cat build-device.log >&2; exit 1; }
  ninja -C build-device "${programs[@]}" >> build-device.log 2>&1 || { tail -40 build-device.log >&2; exit 1; }
  rm -f build-device.log
  binaries=$root/build-device/bin
}

# The programs with the libraries that are no part of a bare system (they are found beside the programs), the cases that
# the head's tests read, the eager benchmark, and this script.
make_package() {
  local program library
  rm -rf "$package"
  mkdir -p "$package/golden"
  for program in "${programs[@]}"; do
    cp "$binaries/$program" "$package/" || exit 1
    strip "$package/$program"
    ldd "$binaries/$program" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' |
      while read -r library; do cp -L "$library" "$package/"; done
  done
  cp -r golden/forward "$package/golden/"
  mkdir "$package/eager"
  cp "$eager/bench.py" "$eager/layer.py" "$package/eager/"
  cp "$here/device_check.sh" "$package/"
  du -sh "$package"
}

if [ -n "$package" ]; then
  [ -n "$binaries" ] || build "80;90a;100a"
  make_package
  exit
fi
# Where the test of this script has no device, it names another file.
if ! compgen -G "${MTPCHECK_DEVICE_FILES:-/dev/nvidia[0-9]*}" > /dev/null; then
  echo "no NVIDIA device on this machine: nothing is checked" >&2
  exit 4
fi
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1)
: "${device:=a device that nvidia-smi does not name}"
if [ -z "$binaries" ]; then
  case "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -1)" in
    8.*) build 80 ;;
    9.0) build 90a ;;
    10.0) build 100a ;;
    *) build "80;90a;100a" ;;
  esac
fi
export LD_LIBRARY_PATH="$binaries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

mkdir -p "$out"
rm -f "$out"/{benchmarks,eager,device_check}.json "$out"/*.log
SECONDS=0
names=()
results=()
durations=()
failed=0
note() {
  names+=("$1")
  results+=("$2")
  durations+=("$3")
  printf '%-24s %-14s %4s s\n' "$1" "$2" "$3"
}
# run NAME LIMIT COMMAND...: keeps the output in $out/NAME.log and notes passed, failed or out of time.
run() {
  local name=$1 limit=$2 started=$SECONDS status result
  shift 2
  timeout "$limit" "$@" > "$out/$name.log" 2>&1
  status=$?
  case $status in 0) result=passed ;; 124) result="out of time" ;; *) result=failed ;; esac
  [ $status -eq 0 ] || { failed=1; tail -20 "$out/$name.log"; }
  note "$name" "$result" $((SECONDS - started))
  return $status
}

# The limits add up to less than six minutes.
echo "$device"
run kernel_tests 60 "$binaries/kernel_tests_device" --gtest_output="json:$out/kernel_tests.json"
run head_tests 45 "$binaries/cuda_head_tests_device"  # reads golden/ of this folder

# Small shapes only: the tools slow a kernel down a hundred times.
small='TopK.Ties*:Norm.*:Router.Ties*:Dispatch.OneExpert*:Linear.LargestBf16*:Linear.TheEnds*:Experts.PlainMlp:SparseAttention.FewerKeys*:OutputGate.*'
for tool in memcheck racecheck initcheck synccheck; do
  if command -v compute-sanitizer > /dev/null; then
    run "$tool" 20 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$binaries/kernel_tests_device" --gtest_filter="$small"
  else
    note "$tool" "not installed" 0
  fi
done

python=
for candidate in "$root/.deps/venv/bin/python" python3; do
  if timeout 15 "$candidate" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2> /dev/null; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  note libtorch_eager "not measured" 0
  run benchmarks 75 "$binaries/cuda_bench" --json "$out/benchmarks.json"
elif run libtorch_eager 60 "$python" "$eager/bench.py" --json "$out/eager.json"; then
  run benchmarks 75 "$binaries/cuda_bench" --json "$out/benchmarks.json" --eager "$out/eager.json"
else
  run benchmarks 75 "$binaries/cuda_bench" --json "$out/benchmarks.json"
fi

{
  printf '{"device": "%s", "checks": {' "$device"
  for i in "${!names[@]}"; do
    [ "$i" -eq 0 ] || printf ', '
    printf '"%s": {"result": "%s", "seconds": %s}' "${names[i]}" "${results[i]}" "${durations[i]}"
  done
  printf '}, "benchmarks": '
  cat "$out/benchmarks.json" 2> /dev/null || printf '"not measured"'
  printf '}\n'
} > "$out/device_check.json"
{
  printf '%s\n\n| check | result | seconds |\n|---|---|---:|\n' "$device"
  for i in "${!names[@]}"; do printf '| %s | %s | %s |\n' "${names[i]}" "${results[i]}" "${durations[i]}"; done
  printf '\n'
  cat "$out/benchmarks.log"
} > "$out/device_check.md"
echo "written: $out/device_check.json, $out/device_check.md"
exit $failed
