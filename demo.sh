#!/usr/bin/env bash
# Two implementations of one trained draft head, compared stage by stage on a real passage.
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh mtpcheck_cli
mkdir -p out
exec build/bin/mtpcheck compare golden/tiny-hy4/checkpoint-bf16 \
  --inputs golden/tiny-hy4/traces/passage-00.safetensors --reference reference --candidate torch --dtype bf16 \
  --report out/tiny-hy4.h5
