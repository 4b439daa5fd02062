"""Writes the checkpoints of golden/loader to disk, for an engine to load: NAME/config.json and NAME/checkpoint/.

    python3 golden/scripts/write_loader_cases.py --out SCRATCH [NAME ...]

Files are byte for byte those that vLLM and SGLang were recorded with; an index is the same but for its metadata.
"""
import argparse
import json
import pathlib

import loader_text
import safetensors_file


def write(folder, cases, name, out, cache):
    made = loader_text.build(folder, cases, name, cache)
    directory = out / name / "checkpoint"
    directory.mkdir(parents=True, exist_ok=True)
    (out / name / "config.json").write_text(json.dumps(made.config, indent=1) + "\n")
    for file, tensors in made.files().items():
        safetensors_file.write(directory / file, tensors)
    weight_map = made.index()
    if weight_map is not None:
        index = json.dumps({"metadata": {}, "weight_map": weight_map}, indent=1)
        (directory / "model.safetensors.index.json").write_text(index + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; all of them where none is named")
    args = parser.parse_args()
    folder = pathlib.Path(__file__).parents[1] / "loader"
    cases, cache = loader_text.read_cases(folder), {}
    for name in args.names or cases:
        write(folder, cases, name, args.out, cache)


if __name__ == "__main__":
    main()
