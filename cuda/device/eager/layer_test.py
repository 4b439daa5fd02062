"""The eager step against the recorded logits of golden/forward, and the benchmark's program on the CPU."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from safetensors.torch import load_file

from layer import Caches, Layer, Quantised, Rows, Shape

HERE = pathlib.Path(__file__).parent
GOLDEN = pathlib.Path(os.environ.get("MTPCHECK_GOLDEN_DIR", HERE.parents[2] / "golden"))
PREFIX = "model.mtp_layers.0."


class FirstOfEquals(Layer):
    """Chooses as the recorded heads did."""

    @staticmethod
    def largest(scores: torch.Tensor, count: int) -> torch.Tensor:
        return scores.sort(descending=True, stable=True).indices[:, :count]


def read_case(name: str, dtype: torch.dtype) -> tuple[Layer, dict]:
    folder = GOLDEN / "forward" / name
    c = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shape = Shape(hidden=c["hidden_size"], vocabulary=c["vocab_size"], q_rank=c["q_lora_rank"], kv_rank=c["kv_lora_rank"],
                  heads=c["num_attention_heads"], nope=c["qk_nope_head_dim"], rope=c["qk_rope_head_dim"],
                  value=c["v_head_dim"], index_heads=c["index_n_heads"], index_dims=c["index_head_dim"],
                  top_k=c["index_topk"], experts=c["n_routed_experts"], used_experts=c["num_experts_per_tok"],
                  inner=c["moe_intermediate_size"], eps=c["rms_norm_eps"], rope_theta=c.get("rope_theta", 10000.0),
                  swiglu_limit=c["swiglu_limit"], expert_scale=c["routed_scaling_factor"])
    stored = {k: v.to(dtype) for k, v in load_file(folder / "weights.safetensors").items()}
    weights = {k.removeprefix(PREFIX): v for k, v in stored.items() if k.startswith(PREFIX)}
    weights["embed_tokens"], weights["lm_head"] = stored["model.embed_tokens.weight"], stored["lm_head.weight"]
    both = weights.pop("mlp.experts.gate_up_proj")
    weights["mlp.experts.gate_proj"], weights["mlp.experts.up_proj"] = both.chunk(2, dim=1)
    inputs = load_file(folder / "inputs.safetensors")
    inputs["logits"] = load_file(folder / "activations_vllm.safetensors")["f64.logits"]
    return FirstOfEquals(shape, weights), inputs


class EagerStep(unittest.TestCase):
    def test_rows_one_by_one_have_the_recorded_logits(self):
        for name in ("topk_below_seq", "seq_below_topk", "sinks", "swiglu_clamp"):
            layer, inputs = read_case(name, torch.float64)
            s, tokens = layer.shape, len(inputs["input_ids"])
            latents = torch.zeros(1, tokens, s.kv_rank + s.rope, dtype=torch.float64)
            index_keys = torch.zeros(1, tokens, s.index_dims, dtype=torch.float64)
            for i in range(tokens):
                rows = Rows(inputs["input_ids"][i:i + 1], inputs["positions"][i:i + 1],
                            inputs["hidden_states"][i:i + 1].to(torch.float64))
                logits = layer.step(rows, Caches(latents[:, :i + 1], index_keys[:, :i + 1]))
                torch.testing.assert_close(logits[0], inputs["logits"][i].to(torch.float64), rtol=1e-6, atol=1e-6,
                                           msg=lambda text: f"{name}, row {i}: {text}")

    def test_given_experts_replace_the_routed(self):
        layer, inputs = read_case("topk_below_seq", torch.float64)
        x = torch.randn(3, layer.shape.hidden, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        rows = Rows(inputs["input_ids"][:3], inputs["positions"][:3], x)
        scores = torch.nn.functional.linear(x, layer.w["mlp.gate.weight"]).sigmoid()
        chosen = (scores + layer.w["mlp.gate.e_score_correction_bias"]).topk(layer.shape.used_experts).indices
        given = Rows(rows.ids, rows.positions, x, [(e, *(chosen == e).nonzero(as_tuple=True)) for e in chosen.unique().tolist()])
        torch.testing.assert_close(layer.mixture(x, given), layer.mixture(x, rows))

    def test_blocks_are_decoded(self):
        codes = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]).to(torch.float8_e4m3fn)
        scales = torch.tensor([[2.0], [0.5]])
        decoded = Quantised(codes, scales, (2, 2)).decoded(torch.float32)
        self.assertEqual(decoded.tolist(), [[2, 4], [6, 8], [2.5, 3], [3.5, 4]])


class Program(unittest.TestCase):
    def run_bench(self, *arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, str(HERE / "bench.py"), *arguments], capture_output=True, text=True, check=False,
                              env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})

    def test_every_storage_and_number_of_tokens_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "eager.json"
            result = self.run_bench("--device", "cpu", "--small", "--json", str(file))
            self.assertEqual(result.returncode, 0, result.stderr)
            out = json.loads(file.read_text(encoding="utf-8"))
        for storage in ("bf16", "fp8_block", "mxfp8"):
            self.assertEqual([step["tokens"] for step in out[storage]["steps"]], [1, 2, 4, 8, 16])
            self.assertTrue(all(step["seconds"] > 0 for step in out[storage]["steps"]))

    def test_without_a_device_it_says_so(self):
        result = self.run_bench()
        self.assertEqual(result.returncode, 4)
        self.assertIn("no CUDA device", result.stderr)


if __name__ == "__main__":
    unittest.main()
