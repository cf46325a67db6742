#!/usr/bin/env python3
"""Tests of scripts/torch_decode.py, the peer of the benchmarks: its steps agree with each other. Needs PyTorch."""
import io
import json
import contextlib
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import torch_decode  # noqa: E402

SIZES = {"name": "tiny", "vocabulary": 300, "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_size": 16,
         "feed_forward": 96, "norm_epsilon": 1e-5, "rope_theta": 10000.0, "is_tied": True, "has_qk_norm": True}
PROMPT = 11


@unittest.skipIf(torch_decode.torch is None, "PyTorch is not installed")
class TorchDecode(unittest.TestCase):
    def model(self):
        torch = torch_decode.torch
        torch.manual_seed(1)
        return torch_decode.Model(SIZES, torch.device("cpu"), torch.float32)

    def test_a_prompt_read_in_parts_gives_the_logits_of_the_whole(self):
        torch = torch_decode.torch
        with torch.inference_mode():
            model = self.model()
            whole = torch_decode.Step(model, 2, 0, PROMPT)
            expected = whole.logits()
            for cut in 4, PROMPT - 1:
                first, rest = torch_decode.Step(model, 2, 0, cut), torch_decode.Step(model, 2, cut, PROMPT - cut)
                first.input, rest.input = whole.input[:, :cut], whole.input[:, cut:]
                first.logits()
                rest.keys[:, :, :, :cut], rest.values[:, :, :, :cut] = first.keys, first.values
                torch.testing.assert_close(rest.logits(), expected, rtol=1e-4, atol=1e-5)

    def test_answers_each_case_with_a_line(self):
        case = {"sizes": SIZES, "batch": 2, "context": 5, "tokens": 1}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            torch_decode.answer({"device": "cpu", "samples": 1, "wants_matrix_rate": False, "cases": [case, case]})
        lines = [json.loads(line) for line in said.getvalue().splitlines()]
        self.assertEqual([0, 1], [line["case"] for line in lines if "case" in line])
        self.assertTrue(all(line["median"] > 0 for line in lines if "case" in line))


if __name__ == "__main__":
    unittest.main()
