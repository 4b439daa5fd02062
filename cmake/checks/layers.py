#!/usr/bin/env python3
"""Checks that includes point one way: reference <- cuda <- harness, reports <- harness.

    python3 cmake/checks/layers.py [ROOT]

A folder may include its own headers and those of the folders listed for it. Tests and benchmarks, which may look from
outside, may also read golden/ and whatever is built beside them.
"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "reference": {"reference"},
    "reports": {"reports", "reference"},  # its exception type
    "cuda": {"cuda", "reference"},
    "harness": {"harness", "reference", "cuda", "reports"},
    "golden": {"golden", "harness", "reference", "cuda", "reports"},
    "properties": {"properties", "golden", "harness", "reference", "cuda", "reports"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/', re.MULTILINE)


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    wrong = []
    for folder, allowed in MAY_INCLUDE.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
                continue
            outside = re.search(r"_(test|bench)$", path.stem) is not None
            for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
                if included in MAY_INCLUDE and included not in allowed and not outside:
                    wrong.append(f"{path.relative_to(root)}: includes {included}/")
        if folder != "reference" and not (root / folder).is_dir():
            wrong.append(f"{folder}: no such folder")
    print("\n".join(wrong) if wrong else "includes point one way")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
