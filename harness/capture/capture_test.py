"""mtpcheck_capture on transformers' modules: what it records, and that it leaves no trace.

MTPCHECK_GOLDEN_DIR says where golden/ is; CTest sets it.
"""

import hashlib
import json
import os
import tempfile
import unittest
from pathlib import Path

import torch
from transformers.models.hy_v4 import modeling_hy_v4 as hy_v4

import mtpcheck_capture
import transformers_head

TINY = Path(os.environ["MTPCHECK_GOLDEN_DIR"]) / "tiny-hy4"
CHECKPOINT = TINY / "checkpoint-bf16"
TRACE = TINY / "traces" / "passage-00.safetensors"

torch.set_num_threads(2)


class CaptureTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_every_stage_is_there_and_the_hooks_are_gone(self):
        head = transformers_head.load(CHECKPOINT, torch.float32)
        inputs = transformers_head.trace_rows(TRACE, 8, torch.float32)
        names = ("forward", "apply_rotary_pos_emb", "eager_attention_forward")
        functions = {name: getattr(hy_v4, name, None) for name in names}
        with mtpcheck_capture.Capture(head, self.folder / "a.safetensors") as capture:
            expected = head(*inputs)
            head(*inputs)  # beyond steps=1: not recorded
        self.assertEqual(len(capture.tensors), 33 + 3)  # all stages, and the inputs
        self.assertTrue(torch.equal(capture.tensors["final_layernorm"], expected))
        self.assertEqual({name: getattr(hy_v4, name, None) for name in names}, functions)
        head(*inputs)
        self.assertEqual(len(capture.tensors), 36)

    def test_second_call_is_a_step_of_its_own(self):
        head = transformers_head.load(CHECKPOINT, torch.float32)
        inputs = transformers_head.trace_rows(TRACE, 8, torch.float32)
        with mtpcheck_capture.Capture(head, self.folder / "a.safetensors", steps=2) as capture:
            head(*inputs)
            head(*inputs)
        self.assertTrue(torch.equal(capture.tensors["logits"], capture.tensors["step1.logits"]))

    def test_tensors_are_cloned_before_operators_in_place(self):
        head = transformers_head.load(CHECKPOINT, torch.float32)
        inputs = transformers_head.trace_rows(TRACE, 8, torch.float32)
        with mtpcheck_capture.Capture(head, self.folder / "a.safetensors") as plain:
            head(*inputs)

        def spoil(_, args, __):
            args[0].zero_()

        handle = head.mlp.register_forward_hook(spoil)
        with mtpcheck_capture.Capture(head, self.folder / "b.safetensors") as spoilt:
            head(*inputs)
        handle.remove()
        self.assertTrue(torch.equal(plain.tensors["post_attention_layernorm"],
                                    spoilt.tensors["post_attention_layernorm"]))

    def test_digests_are_those_of_the_bytes_at_the_return_of_load_weights(self):
        path = self.folder / "digests.json"
        undo = mtpcheck_capture.record_digests(transformers_head.MtpHead, path)
        self.addCleanup(undo)
        head = transformers_head.load(CHECKPOINT, torch.bfloat16)
        found = json.loads(path.read_text())
        self.assertEqual(found["moment"], "return of load_weights")
        weight = transformers_head.tensors_of(CHECKPOINT)["eh_proj.weight"]
        self.assertEqual(found["params"]["eh_proj.weight"], {
            "dtype": "bfloat16", "shape": [256, 512],
            "sha256": hashlib.sha256(weight.view(torch.uint8).numpy().tobytes()).hexdigest()})
        with torch.no_grad():
            head.eh_proj.weight[0, 0] += 1
        self.assertNotEqual(mtpcheck_capture.digests(head, "later")["params"]["eh_proj.weight"],
                            found["params"]["eh_proj.weight"])


if __name__ == "__main__":
    unittest.main()
