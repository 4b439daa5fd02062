"""How long an audit of headers takes at the size of tencent/Hy4-preview, beside Python's safetensors listing the same.

    python3 harness/loading/audit/headers_benchmark.py --tool build/bin/mtpcheck [--keep DIR]

Two checkpoints of 78 layers and one MTP layer in 131 shards are made: experts packed in BF16, and experts split with a
float32 scale per 128x128 block, about 125,000 tensors. The shards are sparse files, so only headers take room. Each
program runs five times with the files in the page cache; the fastest run counts. Python's part needs `safetensors`.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

H, LAYERS, EXPERTS, INNER, SHARDS, VOCABULARY = 6144, 78, 256, 2048, 131, 120832
HEADS, NOPE, ROPE, V, Q_RANK, KV_RANK, INDEX_HEADS, INDEX_DIM = 64, 192, 64, 256, 2048, 512, 32, 128
SIZE = {"BF16": 2, "F32": 4, "F8_E4M3": 1}

CONFIG = {
    "model_type": "hy_v4", "num_hidden_layers": LAYERS, "num_nextn_predict_layers": 1, "hidden_size": H,
    "vocab_size": VOCABULARY, "num_attention_heads": HEADS, "q_lora_rank": Q_RANK, "kv_lora_rank": KV_RANK,
    "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": V, "n_routed_experts": EXPERTS,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": INNER, "intermediate_size": 18432,
    "index_n_heads": INDEX_HEADS, "index_head_dim": INDEX_DIM, "index_topk": 2048, "rms_norm_eps": 1e-5,
    "layer_types": ["sparse_attention"] * LAYERS, "mlp_layer_types": ["dense"] + ["sparse"] * (LAYERS - 1),
    "gating_type": "elementwise", "learnable_sink": True, "max_position_embeddings": 1048576,
}
FP8 = {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3",
                               "weight_block_size": [128, 128]}}


def matrix(out, name, rows, cols, fp8):
    out[name + ".weight"] = ("F8_E4M3" if fp8 else "BF16", [rows, cols])
    if fp8:
        out[name + ".weight_scale_inv"] = ("F32", [-(-rows // 128), -(-cols // 128)])


def mlp(out, name, inner, fp8):
    matrix(out, name + ".gate_proj", inner, H, fp8)
    matrix(out, name + ".up_proj", inner, H, fp8)
    matrix(out, name + ".down_proj", H, inner, fp8)


def layer(out, prefix, dense, fp8):
    a = prefix + "self_attn."
    for norm, size in [("input_layernorm", H), ("post_attention_layernorm", H), ("self_attn.q_a_layernorm", Q_RANK),
                       ("self_attn.kv_a_layernorm", KV_RANK)]:
        out[f"{prefix}{norm}.weight"] = ("BF16", [size])
    matrix(out, a + "q_a_proj", Q_RANK, H, fp8)
    matrix(out, a + "q_b_proj", HEADS * (NOPE + ROPE), Q_RANK, fp8)
    matrix(out, a + "kv_a_proj_with_mqa", KV_RANK + ROPE, H, fp8)
    matrix(out, a + "kv_b_proj", HEADS * (NOPE + V), KV_RANK, fp8)
    matrix(out, a + "o_proj", H, HEADS * V, fp8)
    matrix(out, a + "linear_gate", HEADS * V, H, fp8)
    out[a + "learnable_sink_param"] = ("F32", [HEADS])
    matrix(out, a + "indexer.wq_b", INDEX_HEADS * INDEX_DIM, Q_RANK, fp8)
    matrix(out, a + "indexer.wk", INDEX_DIM, H, False)
    matrix(out, a + "indexer.weights_proj", INDEX_HEADS, H, False)
    out[a + "indexer.k_norm.weight"] = out[a + "indexer.k_norm.bias"] = ("F32", [INDEX_DIM])
    if dense:
        return mlp(out, prefix + "mlp", 18432, fp8)
    out[prefix + "mlp.gate.weight"] = ("F32", [EXPERTS, H])
    out[prefix + "mlp.gate.e_score_correction_bias"] = ("F32", [EXPERTS])
    mlp(out, prefix + "mlp.shared_experts", INNER, fp8)
    if fp8:
        for expert in range(EXPERTS):
            mlp(out, f"{prefix}mlp.experts.{expert}", INNER, True)
    else:
        out[prefix + "mlp.experts.gate_up_proj"] = ("BF16", [EXPERTS, 2 * INNER, H])
        out[prefix + "mlp.experts.down_proj"] = ("BF16", [EXPERTS, H, INNER])


def checkpoint(folder, fp8):
    out = {"model.embed_tokens.weight": ("BF16", [VOCABULARY, H]), "lm_head.weight": ("BF16", [VOCABULARY, H]),
           "model.norm.weight": ("BF16", [H])}
    for index in range(LAYERS):
        layer(out, f"model.layers.{index}.", index == 0, fp8)
    mtp = "model.mtp_layers.0."
    layer(out, mtp, False, fp8)
    for norm in ("enorm", "hnorm", "final_layernorm"):
        out[f"{mtp}{norm}.weight"] = ("BF16", [H])
    out[mtp + "eh_proj.weight"] = ("BF16", [H, 2 * H])
    names, weight_map = list(out), {}
    each = -(-len(names) // SHARDS)
    for shard in range(SHARDS):
        file, header, at = f"model-{shard + 1:05}-of-{SHARDS:05}.safetensors", {"__metadata__": {"format": "pt"}}, 0
        for name in names[shard * each : (shard + 1) * each]:
            dtype, shape = out[name]
            size = SIZE[dtype]
            for extent in shape:
                size *= extent
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            weight_map[name], at = file, at + size
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            f.truncate(8 + len(text) + at)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(CONFIG | (FP8 if fp8 else {})))
    return len(names)


LIST = """
import glob, sys
from safetensors import safe_open
n = 0
for file in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with safe_open(file, "np") as f:
        for name in f.keys():
            s = f.get_slice(name)
            s.get_shape(), s.get_dtype()
            n += 1
print(n)
"""


def fastest(command, runs=5):
    """(seconds, seconds of processor time, peak MB) of the fastest of several runs."""
    best = None
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        if os.waitstatus_to_exitcode(status) != 0:
            return None
        if best is None or seconds < best[0]:
            best = (seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", default="build/bin/mtpcheck")
    parser.add_argument("--python", default=sys.executable, help="a Python that has safetensors")
    parser.add_argument("--keep", type=pathlib.Path, help="make the checkpoints here and leave them")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = args.keep or pathlib.Path(scratch)
        for name, fp8 in (("packed-bf16", False), ("split-fp8", True)):
            folder = root / name
            folder.mkdir(parents=True, exist_ok=True)
            tensors = checkpoint(folder, fp8)
            print(f"{name}: {tensors} tensors in {SHARDS} shards")
            for label, command in (("mtpcheck audit --headers-only", [args.tool, "audit", str(folder), "--headers-only"]),
                                   ("Python safetensors, listing", [args.python, "-c", LIST, str(folder)])):
                result = fastest(command)
                told = "failed" if result is None else "{:6.3f} s  {:6.3f} s of processor  {:6.0f} MB".format(*result)
                print(f"  {label:30}", told)


if __name__ == "__main__":
    main()
