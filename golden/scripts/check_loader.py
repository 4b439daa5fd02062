"""Holds golden/loader to the archive that it was made from: files byte for byte, every recorded outcome and digest.

    python3 golden/scripts/check_loader.py --from SCRATCH/loader        # the unpacked loader.tar.xz
"""
import argparse
import collections
import hashlib
import json
import pathlib
import sys
import tempfile

import loader_text
import safetensors_file
from make_loader import Recorded, param_text, tensor_text


def check(folder, cases, outcomes, recorded, scratch, cache):
    """Messages of what differs."""
    name, wrong = recorded.name, []
    checkpoint = loader_text.build(folder, cases, name, cache)
    if checkpoint.config != recorded.config:
        wrong.append("config")
    files = checkpoint.files()
    if sorted(files) != sorted(recorded.files):
        wrong.append(f"files {sorted(files)}")
    sums = dict(rest.split() for word, rest in outcomes[name] if word == "file")
    for file, tensors in files.items():
        safetensors_file.write(scratch / file, tensors)
        digest = hashlib.sha256((scratch / file).read_bytes()).hexdigest()
        if not digest == recorded.sums[file] == sums[file]:
            wrong.append(f"bytes of {file}")
    if checkpoint.index() != recorded.weight_map:
        wrong.append("index")
    e = recorded.expected
    if "tensors" not in e:
        return wrong
    tensors, params = loader_text.expectation(cases, outcomes, name)
    seen, listed = collections.Counter(), []
    for file, tensor in loader_text.read_order(checkpoint):
        texts = tensors.get(tensor)
        if texts is None:
            wrong.append(f"no outcome of {tensor}")
            continue
        text = texts[min(seen[tensor], len(texts) - 1)]
        seen[tensor] += 1
        listed.append((tensor, text))
        if text.startswith("error"):
            break
    if listed != [(t["name"], tensor_text(t)) for t in e["tensors"]]:
        wrong.append("tensors")
    if params != {n: param_text(n, p, recorded) for n, p in e["params"].items()}:
        wrong.append("params")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="archive", type=pathlib.Path, required=True)
    args = parser.parse_args()
    folder = pathlib.Path(__file__).parents[1] / "loader"
    cases, outcomes, cache, bad = loader_text.read_cases(folder), loader_text.read_outcomes(folder), {}, 0
    names = sorted(p.name for p in args.archive.iterdir())
    if sorted(cases) != names:
        print("cases differ:", set(cases) ^ set(names))
        bad += 1
    digests = 0
    for name in names:
        recorded = Recorded(args.archive / name)
        digests += sum("sha256" in p for p in recorded.expected.get("params", {}).values())
        with tempfile.TemporaryDirectory() as scratch:
            wrong = check(folder, cases, outcomes, recorded, pathlib.Path(scratch), cache)
        for message in wrong:
            print(f"{name}: {message}")
        bad += bool(wrong)
    print(f"{len(names)} cases, {digests} recorded digests, {bad} cases differ")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
