#!/usr/bin/env bash
# Sets up and builds as far as needed, then runs every test. Arguments go to CTest (-R NAME, --rerun-failed, ...).
set -euo pipefail
cd "$(dirname "$0")"
scripts/setup.sh
cd build
exec ctest --output-on-failure -j "${MTPCHECK_JOBS:-2}" "$@"
