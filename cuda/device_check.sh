#!/usr/bin/env bash
# Everything that needs a GPU, in one command of at most six minutes: kernel tests against the reference,
# compute-sanitizer where it is installed, benchmarks. Nothing is fetched.
#
#   cuda/device_check.sh                       builds in build-device/ (nvcc, and the packages of README.md), then checks
#   cuda/device_check.sh --package FOLDER      builds and puts all that a bare machine needs into FOLDER, checks nothing
#   cuda/device_check.sh --binaries FOLDER     checks with what --package made
#   --out FOLDER                               where device_check.json and device_check.md go (default: out)
#
# What cannot run here reads "not measured" or "not installed"; it fails nothing. Exit codes: 0 all that ran passed, 1
# something failed, 2 wrong arguments, 4 no device.
set -uo pipefail
cd "$(dirname "$0")/.."

programs=(kernel_tests_device cuda_head_tests_device cuda_bench)
binaries=
package=
out=out
while [ $# -gt 0 ]; do
  case "$1" in
    --binaries | --package | --out)
      [ $# -ge 2 ] || { echo "$1 takes a folder" >&2; exit 2; }
      case "$1" in --binaries) binaries=$2 ;; --package) package=$2 ;; --out) out=$2 ;; esac
      shift 2 ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
done

build() {
  cmake -S . -B build-device -G Ninja -DCMAKE_BUILD_TYPE=Release -DMTPCHECK_CUDA=ON -DMTPCHECK_TORCH=OFF \
    -DMTPCHECK_EMULATION=OFF > build-device.log 2>&1 || { cat build-device.log >&2; exit 1; }
  local known
  known=$(ninja -C build-device -t targets all)
  for program in "${programs[@]}"; do
    if grep -q "^$program: phony" <<< "$known"; then
      ninja -C build-device "$program" >> build-device.log 2>&1 || { tail -40 build-device.log >&2; exit 1; }
    fi
  done
  rm -f build-device.log
  binaries=build-device/bin
}

# Copies the programs with the libraries that are no part of a bare system; they are found beside the programs.
make_package() {
  mkdir -p "$package"
  for program in "${programs[@]}"; do
    [ -x "$binaries/$program" ] || continue
    cp "$binaries/$program" "$package/"
    strip "$package/$program"
    ldd "$binaries/$program" | awk '$3 ~ /^\// {print $3}' | grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' |
      while read -r library; do cp -L "$library" "$package/"; done
  done
  du -sh "$package"
}

[ -n "$binaries" ] || build
if [ -n "$package" ]; then
  make_package
  exit
fi
export LD_LIBRARY_PATH="$(cd "$binaries" && pwd)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

if ! compgen -G '/dev/nvidia[0-9]*' > /dev/null; then
  echo "no NVIDIA device on this machine: nothing is checked" >&2
  exit 4
fi
device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2> /dev/null | head -1)

mkdir -p "$out"
names=()
results=()
seconds=()
failed=0
# run NAME SECONDS COMMAND...: keeps the output in $out/NAME.log and notes passed, failed or out of time.
run() {
  local name=$1 limit=$2 started=$SECONDS status result
  shift 2
  timeout "$limit" "$@" > "$out/$name.log" 2>&1
  status=$?
  case $status in 0) result=passed ;; 124) result="out of time" ;; *) result=failed ;; esac
  [ $status -eq 0 ] || { failed=1; tail -20 "$out/$name.log"; }
  note "$name" "$result" $((SECONDS - started))
}
note() {
  names+=("$1")
  results+=("$2")
  seconds+=("$3")
  printf '%-24s %-14s %4s s\n' "$1" "$2" "$3"
}

echo "${device:-a device that nvidia-smi does not name}"
run kernel_tests 90 "$binaries/kernel_tests_device" --gtest_output="json:$out/kernel_tests.json"

# The head's tests read golden/ where it was when they were built.
if [ -x "$binaries/cuda_head_tests_device" ] && [ -d build-device ]; then
  run head_tests 60 "$binaries/cuda_head_tests_device"
else
  note head_tests "not measured" 0
fi

# Small shapes only: the tools slow a kernel down a hundred times.
small='TopK.Ties*:Norm.*:Router.Ties*:Dispatch.OneExpert*:Linear.LargestBf16*:Linear.TheEnds*:Experts.PlainMlp:SparseAttention.FewerKeys*:OutputGate.*'
for tool in memcheck racecheck initcheck synccheck; do
  if command -v compute-sanitizer > /dev/null; then
    run "$tool" 30 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$binaries/kernel_tests_device" --gtest_filter="$small"
  else
    note "$tool" "not installed" 0
  fi
done

if [ -x "$binaries/cuda_bench" ]; then
  run benchmarks 120 "$binaries/cuda_bench" --json "$out/benchmarks.json"
else
  note benchmarks "not measured" 0
fi

{
  printf '{"device": "%s", "checks": {' "$device"
  for i in "${!names[@]}"; do
    [ "$i" -eq 0 ] || printf ', '
    printf '"%s": {"result": "%s", "seconds": %s}' "${names[i]}" "${results[i]}" "${seconds[i]}"
  done
  printf '}, "benchmarks": '
  cat "$out/benchmarks.json" 2> /dev/null || printf '"not measured"'
  printf '}\n'
} > "$out/device_check.json"
{
  printf '%s\n\n| check | result | seconds |\n|---|---|---:|\n' "$device"
  for i in "${!names[@]}"; do printf '| %s | %s | %s |\n' "${names[i]}" "${results[i]}" "${seconds[i]}"; done
  [ ! -f "$out/benchmarks.log" ] || { printf '\n'; cat "$out/benchmarks.log"; }
} > "$out/device_check.md"
echo "written: $out/device_check.json, $out/device_check.md"
exit $failed
