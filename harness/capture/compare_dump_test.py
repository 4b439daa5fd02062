"""A dump of transformers' modules as the candidate of mtpcheck compare: it passes, and fails where it was made wrong.

MTPCHECK_TOOL and MTPCHECK_GOLDEN_DIR say where the tool and golden/ are; CTest sets them.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers.models.hy_v4 import modeling_hy_v4 as hy_v4

import mtpcheck_capture
import transformers_head

TINY = Path(os.environ["MTPCHECK_GOLDEN_DIR"]) / "tiny-hy4"
CHECKPOINT = TINY / "checkpoint-bf16"
TRACE = TINY / "traces" / "passage-00.safetensors"
VLLM = Path(os.environ["MTPCHECK_GOLDEN_DIR"]) / "vllm-capture" / "dump.safetensors"
AS_TRANSFORMERS = ("--preset", "transformers")
ROWS = 159  # the passage's 160 tokens give so many drafts

torch.set_num_threads(2)


@contextlib.contextmanager
def interleaved_rope():
    """transformers' rotation with the other pairing: (2i, 2i+1)."""
    original = hy_v4.apply_rotary_pos_emb

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        a, b, cos, sin = x[..., 0::2], x[..., 1::2], cos[..., :half], sin[..., :half]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)

    def apply(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return rotate(q, cos, sin), rotate(k, cos, sin)

    hy_v4.apply_rotary_pos_emb = apply
    try:
        yield
    finally:
        hy_v4.apply_rotary_pos_emb = original


class CompareDumpTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def dump(self, dtype) -> Path:
        head = transformers_head.load(CHECKPOINT, dtype)
        path = self.folder / "dump.safetensors"
        with mtpcheck_capture.Capture(head, path):
            head(*transformers_head.trace_rows(TRACE, ROWS, dtype))
        return path

    def compare(self, dump: Path, *options, inputs: Path = TRACE) -> tuple[int, dict]:
        """Exit code and JSON of mtpcheck compare, the dump being the candidate."""
        out = self.folder / "compare.json"
        done = subprocess.run(
            [os.environ["MTPCHECK_TOOL"], "compare", CHECKPOINT, "--inputs", inputs, "--candidate", f"dump:{dump}",
             "--json", out, *options], capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr + done.stdout)
        return done.returncode, json.loads(out.read_text())

    def test_float32_dump_passes(self):
        code, report = self.compare(self.dump(torch.float32), *AS_TRANSFORMERS)
        self.assertEqual((code, report["verdict"]), (0, "pass"), report)

    def test_bfloat16_dump_passes(self):
        code, report = self.compare(self.dump(torch.bfloat16), *AS_TRANSFORMERS)
        self.assertEqual((code, report["verdict"]), (0, "pass"), report)

    def test_flipped_rope_fails_where_it_was_flipped(self):
        with interleaved_rope():
            dump = self.dump(torch.float32)
        code, report = self.compare(dump, *AS_TRANSFORMERS)
        self.assertEqual((code, report["first_divergent_stage"]), (1, "q_rope"))
        self.assertEqual(report["first_failing_stage_in_replay"], "q_rope")

    def test_missing_stages_are_named(self):
        dump = self.dump(torch.float32)
        tensors = load_file(dump)
        mtpcheck_capture.save(
            {name: t for name, t in tensors.items() if name not in ("kv_c", "gated")}, dump, {})
        code, report = self.compare(dump, *AS_TRANSFORMERS)
        self.assertEqual(code, 1)
        self.assertEqual({entry["name"] for entry in report["unmatched"]}, {"kv_c", "gated"})
        self.assertTrue(all(s["verdict"] == "pass" for s in report["stages"] if s["name"] == "logits"))

    def test_dump_of_vllm_passes_with_its_conventions_alone(self):
        code, report = self.compare(VLLM, "--preset", "vllm", inputs=VLLM)
        self.assertEqual((code, report["verdict"]), (0, "pass"), report)
        code, report = self.compare(VLLM, inputs=VLLM)  # tiny-hy4's own: half-split RoPE
        self.assertEqual((code, report["first_divergent_stage"]), (1, "q_rope"))


if __name__ == "__main__":
    unittest.main()
