#!/usr/bin/env bash
# Installs what the build needs and builds. Called by demo.sh and test.sh; safe to call again: what is there is kept.
#
#   scripts/setup.sh [TARGET ...]     the targets to build; none: all
#
#   MTPCHECK_CUDA    AUTO (default), ON or OFF: the device half of cuda/
#   MTPCHECK_TIDY    OFF (default) or ON: clang-tidy as one of the tests
#   CXX, CUDACXX, CMAKE_CXX_COMPILER_LAUNCHER ... as CMake reads them
#
# Debian packages are installed by root only; an ordinary user is told which are missing. LibTorch comes from PyPI's
# wheel into .deps/venv, once.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

install_packages() {
  command -v dpkg-query >/dev/null || { say "not a Debian system: the packages of scripts/packages.txt are up to you"; return; }
  local wanted missing
  wanted=$(grep -v '^#' scripts/packages.txt)
  # shellcheck disable=SC2086  # one word a package
  missing=$(comm -23 <(sort <<<"$wanted") \
    <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $wanted 2>/dev/null | sed -n 's/^installed //p' | sort))
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    say "these Debian packages are missing, and only root can install them:" >&2
    printf '  apt-get install --no-install-recommends %s\n' "$(tr '\n' ' ' <<<"$missing")" >&2
    exit 4
  fi
  say "installing $(tr '\n' ' ' <<<"$missing")"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# The stamp holds what was installed: an interrupted or outdated set-up is repeated, a complete one costs nothing.
install_python() {
  local venv=.deps/venv stamp=.deps/venv/mtpcheck-requirements.txt python=/usr/bin/python3
  [ -x "$python" ] || python=python3
  if cmp -s scripts/requirements.txt "$stamp" && [ -d .deps/stand-ins ]; then return; fi
  say "installing LibTorch and Python packages into $venv (about 560 MB to download, once)"
  mkdir -p .deps
  [ -x "$venv/bin/pip" ] || "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r scripts/requirements.txt
  "$venv/bin/python" scripts/torch_stand_ins.py "$(echo "$venv"/lib/python3*/site-packages/torch/lib)" .deps/stand-ins
  cp scripts/requirements.txt "$stamp"
}

build() {
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DMTPCHECK_TORCH=ON \
    -DMTPCHECK_CUDA="${MTPCHECK_CUDA:-AUTO}" -DMTPCHECK_TIDY="${MTPCHECK_TIDY:-OFF}" || exit 4
  cmake --build build ${1:+--target "$@"}
}

install_packages
install_python
build "$@"
