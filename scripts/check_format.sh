#!/usr/bin/env bash
# Every C++ and CUDA file is as clang-format would write it. scripts/check_format.sh [--fix]
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -d '' files < <(find cuda golden harness properties reference reports \
  \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 | sort -z)
if [ "${1:-}" = --fix ]; then exec clang-format -i "${files[@]}"; fi
# Not --dry-run: version 14 reports replacements there that change nothing.
bad=0
for file in "${files[@]}"; do
  diff -u --label "$file" --label "$file, formatted" "$file" <(clang-format "$file") || bad=1
done
[ $bad -eq 0 ] || { echo "run scripts/check_format.sh --fix"; exit 1; }
echo "clang-format: ${#files[@]} files are clean"
