#!/usr/bin/env bash
# clang-tidy over a build's own sources.
#
#   scripts/tidy.sh [--full|--ci] BUILD [FILE ...]
#
# --ci lints reference/ and reports/, on which everything stands, and the sources that the last commit changed: all of them
# take half an hour on two cores.
# Without --full, tests and benchmarks, the path-sensitive checks of the static analyzer and the slower half of bugprone-*
# are left out: they are three quarters of the time. MTPCHECK_JOBS says how many run at once.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
full= ci=
case "$1" in
  --full) full=1; shift ;;
  --ci) ci=1; shift ;;
esac
build=$(cd "$1" && pwd); shift
cd "$root"

# Every source of the compilation database that lies in the repository; generated ones lie in the build. A source that is
# compiled several times (kernels' host code, for the device and for the CPU) is linted once: the first way is written to
# a database of its own. Sources that are compiled in groups (MTPCHECK_UNITY) are linted one by one, each as its group is.
sources() {
  python3 - "$root" "$build" "$full" <<'PYTHON'
import json, re, sys
from pathlib import Path
root, build, full = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]

def sources(entry):
    file = Path(entry["directory"], entry["file"]).resolve()
    if "/Unity/unity_" not in str(file):
        yield file, entry
        return
    for member in re.findall(r'^#include "(.+)"$', file.read_text(), re.MULTILINE):
        yield Path(member), entry | {"file": member, "command": entry["command"].replace(str(file), member)}

once = {}
for entry in json.loads((build / "compile_commands.json").read_text()):
    for file, command in sources(entry):
        once.setdefault(file, command)
(build / "tidy").mkdir(exist_ok=True)
(build / "tidy" / "compile_commands.json").write_text(json.dumps(list(once.values())))
for file in sorted(f for f in once if f.is_relative_to(root) and not f.is_relative_to(build) and f.suffix == ".cpp"):
    if full or not file.stem.endswith(("_test", "_bench")):
        print(file.relative_to(root))
PYTHON
}

mapfile -t all < <(sources)
changed() { git diff --name-only HEAD~1 HEAD 2>/dev/null || true; }
files=("$@")
if [ -n "$ci" ]; then
  mapfile -t files < <(printf '%s\n' "${all[@]}" | grep -E -e '^(reference|reports)/' -e "^($(changed | paste -sd'|'))\$")
elif [ $# -eq 0 ]; then
  files=("${all[@]}")
fi
[ ${#files[@]} -gt 0 ] || { echo "no sources in $build/compile_commands.json"; exit 1; }
checks=()
kept=use-after-move,dangling-handle,integer-division,string-constructor,sizeof-expression,unused-raii,infinite-loop
[ -n "$full" ] || checks=("--checks=-clang-analyzer-*,-bugprone-*,bugprone-${kept//,/,bugprone-}")
# Findings go to stdout; stderr only counts the suppressed warnings of system headers.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "${MTPCHECK_JOBS:-2}" clang-tidy -p "$build/tidy" --quiet \
    --extra-arg=-Wno-unused-command-line-argument --extra-arg=-Wno-unknown-warning-option "${checks[@]}" 2>/dev/null ||
  { echo "clang-tidy: findings in the files above"; exit 1; }
echo "clang-tidy: ${#files[@]} files are clean"
