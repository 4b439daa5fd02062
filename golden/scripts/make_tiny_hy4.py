"""Makes golden/tiny-hy4 from the full tiny-hy4 folder: what no test reads is left out.

    python3 golden/scripts/make_tiny_hy4.py --from SHARED        # SHARED holds tiny-hy4/
"""
import argparse
import json
import pathlib
import shutil

import safetensors_file

NATURAL = ["00", "01", "02", "03", "04", "06", "07", "08", "09", "10", "12", "13"]
GENERATED = ["00", "01", "02", "04", "05", "06"]
BACKBONE_KEPT = ["model.embed_tokens.weight", "model.layers.0.input_layernorm.weight", "model.norm.weight", "lm_head.weight"]


def kept_in_bf16(name):
    return name in BACKBONE_KEPT or name.startswith("model.mtp_layers.")


def trim_bf16(source, target):
    """The three shards and their index, with one small backbone tensor so that something is ignored."""
    index = json.loads((source / "model.safetensors.index.json").read_text())
    weight_map = {name: shard for name, shard in index["weight_map"].items() if kept_in_bf16(name)}
    total = 0
    for shard in sorted(set(index["weight_map"].values())):
        metadata, tensors = safetensors_file.read(source / shard)
        tensors = {name: tensor for name, tensor in tensors.items() if kept_in_bf16(name)}
        total += sum(len(data) for _, _, data in tensors.values())
        safetensors_file.write(target / shard, tensors, metadata)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (target / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    for name in ["config.json", "mtpcheck.json"]:
        shutil.copyfile(source / name, target / name)


def copy_whole(source, target):
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        shutil.copyfile(path, target / path.name)


def trim_trace(source, target):
    """Everything but the draft's full logits; their largest value and log-sum-exp stay."""
    metadata, tensors = safetensors_file.read(source)
    tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("mtp_logits_")}
    safetensors_file.write(target, tensors, metadata)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="shared", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "tiny-hy4")
    args = parser.parse_args()
    source, out = args.shared / "tiny-hy4", args.out
    for name in ["checkpoint-bf16", "checkpoint-split", "checkpoint-fp8-block", "checkpoint-mxfp8", "traces", "generated"]:
        shutil.rmtree(out / name, ignore_errors=True)
    trim_bf16(source / "checkpoint-bf16", out / "checkpoint-bf16")
    for name in ["checkpoint-split", "checkpoint-fp8-block", "checkpoint-mxfp8"]:
        copy_whole(source / name, out / name)
    for passage in NATURAL:
        name = f"traces/passage-{passage}.safetensors"
        trim_trace(source / name, out / name)
    shutil.copyfile(source / "traces/passage-00.h5", out / "traces/passage-00.h5")
    shutil.copyfile(source / "traces/summary.json", out / "traces/summary.json")
    for kind in ["greedy", "sampled"]:
        (out / "generated" / kind).mkdir(parents=True)
        for passage in GENERATED:
            name = f"generated/{kind}/passage-{passage}.safetensors"
            shutil.copyfile(source / name, out / name)
    shutil.copyfile(source / "generated/generated.json", out / "generated/generated.json")
    shutil.copyfile(source / "faults.json", out / "faults.json")


if __name__ == "__main__":
    main()
