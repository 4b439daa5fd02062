"""Make PyTorch's CUDA wheel importable on a machine without the CUDA libraries it names.

    python3 scripts/torch_stand_ins.py TORCH/lib OUT

The wheel on PyPI is a CUDA build: `import torch` asks the loader for cuDNN, NCCL, cuBLAS and others, 2 GB of packages
that nothing on a CPU calls. This writes a library of each of those names to OUT, with every symbol that the wheel wants
from it, in the version it wants; a call of one traps. Run Python with LD_LIBRARY_PATH=OUT. Real libraries that lie
where the wheel looks for them (site-packages/nvidia) are found first.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

STOOD_IN = re.compile(r"lib(cublas|cublasLt|cudnn|cufft|cufile|cusolver|cusparse|cusparseLt|nccl|nvrtc|nvshmem_host)\.so\.\d+")
# Symbols without a version name no library: these prefixes say that one of ours is meant.
UNVERSIONED = ("nccl", "cuFile", "cusolver", "cusparseLt", "nvrtc", "nvshmem")


def output_of(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wanted(libraries: list[Path]) -> tuple[set[str], dict[str, set[str]], dict[str, str]]:
    """(names of the libraries to stand in for, symbols by version, library by version)."""
    names: set[str] = set()
    symbols: dict[str, set[str]] = defaultdict(set)
    owner: dict[str, str] = {}
    for library in libraries:
        names |= {n for n in re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-dW", library))
                  if STOOD_IN.fullmatch(n)}
        file = ""
        for line in output_of("readelf", "-VW", library).splitlines():
            if found := re.search(r"File: (\S+)", line):
                file = found[1]
            elif (found := re.search(r"Name: (\S+)", line)) and STOOD_IN.fullmatch(file):
                owner[found[1]] = file
        for line in output_of("nm", "-D", "--undefined-only", library).splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            if version or symbol.startswith(UNVERSIONED):
                symbols[version.lstrip("@")].add(symbol)
    return names, symbols, owner


def build(path: Path, versions: dict[str, set[str]], scratch: Path) -> None:
    source, script = scratch / "symbols.s", scratch / "versions.map"
    symbols = sorted(set().union(*versions.values())) if versions else []
    source.write_text(".text\n" + "".join(f".globl {s}\n.type {s}, @function\n{s}:\n" for s in symbols) + "ud2\n"
                      + '.section .note.GNU-stack,"",@progbits\n')
    script.write_text("".join(f"{version} {{ global: {' '.join(f'{s};' for s in sorted(of))} }};\n"
                              for version, of in versions.items() if version))
    options = [f"-Wl,--version-script={script}"] if script.read_text() else []
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", path, f"-Wl,-soname,{path.name}", *options, source],
                   check=True)


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    names, symbols, owner = wanted(sorted(folder.glob("*.so*")))
    unversioned_home = next(n for n in sorted(names) if n not in owner.values())
    for name in sorted(names):
        versions = {v: of for v, of in symbols.items() if v and owner.get(v) == name}
        if name == unversioned_home:
            versions[""] = symbols[""]
        build(out / name, versions, out)
    for scratch in ("symbols.s", "versions.map"):
        (out / scratch).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
