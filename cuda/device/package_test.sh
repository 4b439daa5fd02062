#!/usr/bin/env bash
# Packs the programs in BIN with device_check.sh and looks whether a machine with nothing but a driver could use the
# package; then has the package's own script report on stand-ins for its programs.
#
#   package_test.sh BIN WORK
set -euo pipefail
bin=$(realpath "$1")
work=$(realpath -m "$2")
package=$work/package
fail() { echo "FAILED: $*" >&2; exit 1; }

"$(dirname "$0")/../device_check.sh" --binaries "$bin" --package "$package"
for file in kernel_tests_device cuda_head_tests_device cuda_bench device_check.sh eager/bench.py eager/layer.py \
  golden/forward/packed/{config.json,{inputs,weights,activations_vllm,activations_hf}.safetensors}; do
  [ -e "$package/$file" ] || fail "the package has no $file"
done
bytes=$(du -sb "$package" | cut -f1)
[ "$bytes" -lt 60000000 ] || fail "the package has $bytes bytes, at most 60 MB are allowed"
for program in kernel_tests_device cuda_head_tests_device cuda_bench; do
  libraries=$(cd / && ldd "$package/$program")
  ! grep -qE 'not found|torch|hdf5' <<< "$libraries" || fail "$program needs: $libraries"
  ! grep -vE "$package|vdso|/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so" <<< "$libraries" ||
    fail "$program finds the libraries above outside of the package"
  status=0
  message=$(cd "$package" && CUDA_VISIBLE_DEVICES='' "./$program" 2>&1) || status=$?
  [ $status -eq 4 ] && grep -q '^No CUDA d' <<< "$message" || fail "$program without a device: exit $status, $message"
done
status=0
MTPCHECK_DEVICE_FILES='/no/such/*' "$package/device_check.sh" 2> "$work/message" || status=$?
[ $status -eq 4 ] && grep -q 'no NVIDIA device' "$work/message" || fail "device_check.sh without a device: exit $status"
! "$package/device_check.sh" --unknown x 2> "$work/message" || fail "an unknown option is accepted"

# Stand-ins: kernel tests pass, the head's tests fail, the benchmark writes figures.
stand_ins=$work/stand-ins
mkdir -p "$stand_ins"
printf '#!/bin/sh\necho fine\n' > "$stand_ins/kernel_tests_device"
printf '#!/bin/sh\necho a stage is wrong; exit 1\n' > "$stand_ins/cuda_head_tests_device"
printf '#!/bin/sh\necho "| T | ms |"; echo "{\\"keys\\": 8192}" > "$2"\n' > "$stand_ins/cuda_bench"
chmod +x "$stand_ins"/*
status=0
# A python3 of its own, without PyTorch, and no compute-sanitizer.
tools=$work/tools
mkdir -p "$tools"
printf '#!/bin/sh\nexit 1\n' > "$tools/python3"
chmod +x "$tools/python3"
MTPCHECK_DEVICE_FILES=$stand_ins/cuda_bench PATH="$tools:/usr/bin:/bin" \
  "$package/device_check.sh" --binaries "$stand_ins" --out "$work/out" > "$work/message" || status=$?
[ $status -eq 1 ] || fail "a failed check gives exit $status"
grep -q 'a stage is wrong' "$work/message" || fail "a failed check's output is not shown"
grep -q '^| kernel_tests | passed | ' "$work/out/device_check.md" || fail "no row for the kernel tests"
grep -q '^| head_tests | failed | ' "$work/out/device_check.md" || fail "no row for the head's tests"
grep -q '^| libtorch_eager | not measured | 0 |' "$work/out/device_check.md" || fail "no row for LibTorch eager"
grep -q '^| T | ms |' "$work/out/device_check.md" || fail "no table of the benchmark"
grep -Eq '"head_tests": \{"result": "failed", "seconds": [0-9]+\}.*"libtorch_eager": \{"result": "not measured"' \
  "$work/out/device_check.json" || fail "device_check.json: $(cat "$work/out/device_check.json")"
grep -q '}, "benchmarks": {"keys": 8192}' "$work/out/device_check.json" || fail "no figures in device_check.json"
echo "the package is whole: $bytes bytes"
