#!/usr/bin/env python3
"""Registers, shared memory and spills of every kernel and architecture.

usage: resources.py FOLDER [--check TABLE.md | --write TABLE.md]

FOLDER is searched for the *.ptxas files that keep_ptxas_report.py leaves beside object files. Without an option the
table is printed. --write puts it into TABLE.md; the file's section "Explained spills" is kept:

    - `kernel` sm_80: why registers are spilled there and why that is right

--check fails if a kernel spills without such a line, if a line explains what does not spill, or if the table lists other
kernels than there are; where only numbers differ it says so.
"""

import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(?P<symbol>\w+)' for '(?P<architecture>sm_\w+)'")
PROPERTIES = re.compile(r"Function properties for (?P<symbol>\w+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
EXPLANATION = re.compile(r"- `(?P<kernel>[^`]+)` (?P<architecture>sm_\w+): (?P<reason>.+)")
ROW = re.compile(r"^\| `(?P<kernel>[^`]+)` \|", re.MULTILINE)

EXPLAINED = "## Explained spills"
INTRODUCTION = """# Registers, shared memory and spills

What ptxas reports (`-Xptxas -v`) for every kernel and architecture; shared memory is the static part. Written by
`python3 cuda/resources.py build/cuda/CMakeFiles/mtpcheck_cuda_device.dir --write cuda/RESOURCES.md`; the test
`cuda_resources` fails on a spill that is not explained below.
"""


@dataclasses.dataclass
class Usage:
    """What one kernel takes on one architecture."""

    registers: int = 0
    shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0

    @property
    def spills(self) -> bool:
        return self.spill_stores > 0 or self.spill_loads > 0


def read_reports(folder: pathlib.Path) -> dict[tuple[str, str], Usage]:
    """(mangled name, architecture) -> usage, of all reports under the folder."""
    usages: dict[tuple[str, str], Usage] = {}
    for report in sorted(folder.rglob("*.ptxas")):
        entry = None
        current = None
        for line in report.read_text(encoding="utf-8").splitlines():
            if match := ENTRY.search(line):
                entry = usages.setdefault((match["symbol"], match["architecture"]), Usage())
                symbol, current = match["symbol"], None
            elif match := PROPERTIES.search(line):
                # Functions that are not inlined have properties of their own, which are not a kernel's.
                current = entry if entry is not None and match["symbol"] == symbol else None
            elif (match := FRAME.search(line)) and current is not None:
                current.stack, current.spill_stores, current.spill_loads = map(int, match.groups())
            elif (match := REGISTERS.search(line)) and entry is not None:
                entry.registers = int(match[1])
                shared = SHARED.search(line)
                entry.shared = int(shared[1]) if shared else 0
    return usages


def demangle(symbols: list[str]) -> list[str]:
    """Names without namespaces and parameters; as they are where c++filt is missing."""
    try:
        output = subprocess.run(["c++filt"], input="\n".join(symbols), text=True, capture_output=True, check=True)
    except FileNotFoundError:
        return symbols
    return [shorten(name) for name in output.stdout.splitlines()]


def shorten(name: str) -> str:
    name = name.replace("(anonymous namespace)::", "")
    depth = 0
    for position, letter in enumerate(name):  # the parameter list begins at the first ( outside of <>
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0:
            name = name[:position]
            break
    name = name.removeprefix("void ")
    return re.sub(r"\w+::", "", name)


def make_table(usages: dict[tuple[str, str], Usage]) -> dict[tuple[str, str], Usage]:
    """(readable name, architecture) -> usage, in order."""
    symbols = sorted({symbol for symbol, _ in usages})
    names = dict(zip(symbols, demangle(symbols)))
    order = {architecture: i for i, architecture in enumerate(("sm_80", "sm_90a", "sm_100a"))}
    table = {(names[symbol], architecture): usage for (symbol, architecture), usage in usages.items()}
    return dict(sorted(table.items(), key=lambda item: (item[0][0], order.get(item[0][1], 9), item[0][1])))


def render(table: dict[tuple[str, str], Usage], explanations: str) -> str:
    """One row a kernel; a cell has a figure for each architecture, or one where all agree."""
    architectures = list(dict.fromkeys(architecture for _, architecture in table))
    heads = ["registers", "shared", "stack", "spill stores", "spill loads"]
    lines = [INTRODUCTION, f"Figures are for {' / '.join(architectures)}; bytes but for registers.", "",
             "| kernel | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for kernel in dict.fromkeys(kernel for kernel, _ in table):
        usages = [dataclasses.astuple(table[kernel, architecture]) for architecture in architectures
                  if (kernel, architecture) in table]
        cells = [" / ".join(map(str, column)) if len(set(column)) > 1 else str(column[0]) for column in zip(*usages)]
        lines.append(f"| `{kernel}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + f"\n\n{EXPLAINED}\n{explanations.strip() or 'None.'}\n"


def explanations_of(text: str) -> str:
    return text.partition(EXPLAINED)[2]


def check(table: dict[tuple[str, str], Usage], text: str) -> int:
    explained = {(match["kernel"], match["architecture"]) for match in EXPLANATION.finditer(explanations_of(text))}
    listed = {match["kernel"] for match in ROW.finditer(text)}
    compiled = {kernel for kernel, _ in table}
    problems = []
    for key, usage in table.items():
        if usage.spills and key not in explained:
            problems.append(f"{key[0]} on {key[1]} spills {usage.spill_stores} bytes of stores and {usage.spill_loads} of "
                            "loads, which nothing explains")
    problems += [f"{kernel} on {architecture} does not spill, but is explained" for kernel, architecture in
                 sorted(explained) if (kernel, architecture) not in table or not table[kernel, architecture].spills]
    problems += [f"{kernel} is not in the table: write it again" for kernel in sorted(compiled - listed)]
    problems += [f"{kernel} is in the table, but no such kernel was compiled: write it again"
                 for kernel in sorted(listed - compiled)]
    for problem in problems:
        print(problem)
    if not problems and render(table, explanations_of(text)) != text:
        print("the table's numbers differ from this build's, by another compiler or a newer kernel: write it again")
    print(f"{len(table)} kernels and architectures, {sum(usage.spills for usage in table.values())} with spills")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--check", type=pathlib.Path, metavar="TABLE.md")
    parser.add_argument("--write", type=pathlib.Path, metavar="TABLE.md")
    arguments = parser.parse_args()
    table = make_table(read_reports(arguments.folder))
    if not table:
        print(f"{arguments.folder}: no *.ptxas files; build the target mtpcheck_cuda_device first", file=sys.stderr)
        return 1
    if arguments.check:
        return check(table, arguments.check.read_text(encoding="utf-8"))
    target = arguments.write
    text = render(table, explanations_of(target.read_text(encoding="utf-8")) if target and target.exists() else "")
    if target:
        target.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
