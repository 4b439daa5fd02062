#!/usr/bin/env python3
"""A decode step of Hy4-preview's MTP layer in eager PyTorch, timed with events on the device that is there.

usage: bench.py [--json FILE] [--device cuda|cpu] [--small]

Median of 20 steps for T = 1, 2, 4, 8, 16 sequences of 8192 keys, with bf16, FP8 block (128 x 128) and MXFP8 (1 x 32)
weights. A step's weights are many times the L2 cache, so every step reads them from memory. --small and --device cpu are
for trying the program out. Exit code 4: no PyTorch, or no device that it can use.
"""

import argparse
import json
import random
import statistics
import sys
import time

try:
    import torch
except ImportError:
    print("PyTorch is not installed: nothing is measured", file=sys.stderr)
    sys.exit(4)

from layer import HY4_PREVIEW, Caches, Layer, Quantised, Rows, Shape

SMALL = Shape(hidden=256, vocabulary=512, q_rank=128, kv_rank=128, heads=4, nope=32, rope=32, value=64, index_heads=4,
              index_dims=64, top_k=16, experts=8, used_experts=2, inner=128)
TOKENS = (1, 2, 4, 8, 16)
BLOCKS = {"bf16": None, "fp8_block": (128, 128), "mxfp8": (1, 32)}


def matrix(device: str, block: tuple[int, int] | None, *shape: int) -> torch.Tensor | Quantised:
    values = torch.empty(shape, dtype=torch.bfloat16, device=device).uniform_(-0.02, 0.02)
    if block is None:
        return values
    scale_type = torch.float32 if block == (128, 128) else torch.float8_e8m0fnu
    cells = (*shape[:-2], shape[-2] // block[0], shape[-1] // block[1])
    scales = torch.full(cells, 2.0**-8, device=device).to(scale_type)
    codes = torch.empty(shape, dtype=torch.float8_e4m3fn, device=device)
    for part, code in zip(values.view(-1, shape[-1]).split(1 << 16), codes.view(-1, shape[-1]).split(1 << 16)):
        code.copy_(part.to(torch.float32) * 256)
    return Quantised(codes, scales, block)


def weights_of(s: Shape, device: str, block: tuple[int, int] | None) -> dict:
    """Which matrices checkpoints quantise: see cuda/device/floor.h."""
    plain, quantised = (lambda *shape: matrix(device, None, *shape)), (lambda *shape: matrix(device, block, *shape))
    ones = lambda count: torch.ones(count, dtype=torch.bfloat16, device=device)
    return {
        "embed_tokens": plain(64, s.hidden), "lm_head": plain(s.vocabulary, s.hidden),
        **{f"{name}.weight": ones(s.hidden) for name in ("enorm", "hnorm", "input_layernorm", "post_attention_layernorm",
                                                         "final_layernorm")},
        "eh_proj.weight": plain(s.hidden, 2 * s.hidden),
        "self_attn.q_a_proj.weight": quantised(s.q_rank, s.hidden),
        "self_attn.q_a_layernorm.weight": ones(s.q_rank),
        "self_attn.q_b_proj.weight": quantised(s.heads * (s.nope + s.rope), s.q_rank),
        "self_attn.kv_a_proj_with_mqa.weight": quantised(s.kv_rank + s.rope, s.hidden) if (s.kv_rank + s.rope) % 128 == 0
        or block != (128, 128) else plain(s.kv_rank + s.rope, s.hidden),
        "self_attn.kv_a_layernorm.weight": ones(s.kv_rank),
        "self_attn.kv_b_proj.weight": plain(s.heads * (s.nope + s.value), s.kv_rank),
        "self_attn.linear_gate.weight": quantised(s.heads * s.value, s.hidden),
        "self_attn.o_proj.weight": quantised(s.hidden, s.heads * s.value),
        "self_attn.learnable_sink_param": torch.zeros(s.heads, device=device),
        "self_attn.indexer.wq_b.weight": quantised(s.index_heads * s.index_dims, s.q_rank),
        "self_attn.indexer.wk.weight": plain(s.index_dims, s.hidden),
        "self_attn.indexer.weights_proj.weight": plain(s.index_heads, s.hidden),
        "self_attn.indexer.k_norm.weight": ones(s.index_dims), "self_attn.indexer.k_norm.bias": ones(s.index_dims),
        "mlp.gate.weight": plain(s.experts, s.hidden).to(torch.float32),
        "mlp.gate.e_score_correction_bias": torch.zeros(s.experts, device=device),
        "mlp.experts.gate_proj": quantised(s.experts, s.inner, s.hidden),
        "mlp.experts.up_proj": quantised(s.experts, s.inner, s.hidden),
        "mlp.experts.down_proj": quantised(s.experts, s.hidden, s.inner),
        "mlp.shared_experts.gate_proj.weight": quantised(s.inner, s.hidden),
        "mlp.shared_experts.up_proj.weight": quantised(s.inner, s.hidden),
        "mlp.shared_experts.down_proj.weight": quantised(s.hidden, s.inner),
    }


def rows_of(s: Shape, device: str, tokens: int, keys: int) -> Rows:
    draw = random.Random(1)
    choices: dict[int, list[tuple[int, int]]] = {}
    for token in range(tokens):
        for choice, expert in enumerate(sorted(draw.sample(range(s.experts), s.used_experts))):
            choices.setdefault(expert, []).append((token, choice))
    index = lambda values: torch.tensor(values, device=device)
    experts = [(expert, index([t for t, _ in used]), index([c for _, c in used])) for expert, used in sorted(choices.items())]
    return Rows(index([1] * tokens), index([keys - 1] * tokens),
                torch.randn(tokens, s.hidden, device=device).to(torch.bfloat16), experts)


def seconds_of(device: str, action, repetitions: int) -> float:
    for _ in range(3):
        action()
    seconds = []
    for _ in range(repetitions):
        if device == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda.synchronize()
            start.record()
            action()
            end.record()
            torch.cuda.synchronize()
            seconds.append(start.elapsed_time(end) * 1e-3)
        else:
            begun = time.perf_counter()
            action()
            seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    device = arguments.device
    if device == "cuda" and not torch.cuda.is_available():
        print(f"PyTorch {torch.__version__} finds no CUDA device: nothing is measured", file=sys.stderr)
        return 4
    shape, keys = (SMALL, 64) if arguments.small else (HY4_PREVIEW, 8192)
    out = {"device": torch.cuda.get_device_name() if device == "cuda" else "CPU", "torch": torch.__version__, "keys": keys}
    with torch.inference_mode():
        for name, block in BLOCKS.items():
            layer = Layer(shape, weights_of(shape, device, block))
            steps = []
            for tokens in TOKENS:
                rows = rows_of(shape, device, tokens, keys)
                noise = lambda width: torch.randn(tokens, keys, width, device=device).to(torch.bfloat16)
                caches = Caches(noise(shape.kv_rank + shape.rope), noise(shape.index_dims))
                step = lambda: layer.step(rows, caches).argmax(-1)
                steps.append({"tokens": tokens, "seconds": seconds_of(device, step, 3 if arguments.small else 20)})
                print(f"{name}, T = {tokens}: {steps[-1]['seconds'] * 1e3:.3f} ms", flush=True)
            out[name] = {"steps": steps}
            del layer, rows, caches, step
            if device == "cuda":
                torch.cuda.empty_cache()
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
