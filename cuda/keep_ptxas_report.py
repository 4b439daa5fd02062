#!/usr/bin/env python3
"""Runs a compile command and keeps what ptxas reports in a file beside the object.

usage: keep_ptxas_report.py OBJECT COMMAND...

With `-Xptxas -v` nvcc prints registers, shared memory and spills of every kernel to its standard error. Those lines go
to OBJECT.ptxas, all others where they were meant to go. A command that says nothing of the kind leaves no file.
"""

import subprocess
import sys


def main() -> int:
    report_file = sys.argv[1] + ".ptxas"
    result = subprocess.run(sys.argv[2:], stderr=subprocess.PIPE, text=True, check=False)
    report = []
    for line in result.stderr.splitlines(keepends=True):
        if line.startswith(("ptxas info", "    ")) and ("ptxas" in line or "bytes stack frame" in line):
            report.append(line)
        else:
            sys.stderr.write(line)
    if report:
        with open(report_file, "w", encoding="utf-8") as file:
            file.writelines(report)
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
