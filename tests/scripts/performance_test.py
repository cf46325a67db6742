#!/usr/bin/env python3
"""Tests of scripts/performance.py, run as a program on a folder of its own."""
import unittest

from page_case import PageCase

PARAMS = {"shape": "llama-8b", "batch": 8, "context": 512, "graphs": "full"}
FIGURES = {"median": 4000.0, "p10": 3990.0, "p90": 4010.0, "unit": "µs"}
STEP = {"name": "decode step", "params": PARAMS, **FIGURES, "floor": 3400.0, "fraction": 0.85, "limit": 4250.0}
EAGER = {"name": "decode step against a peer", "params": {**PARAMS, "peer": "PyTorch eager"}, **FIGURES,
         "baseline": 16000.0, "ratio": 0.25}
UNEQUAL = {"name": "unequal lengths", "params": {**PARAMS, "context": "16 to 8192"}, **FIGURES, "baseline": 3200.0,
           "ratio": 1.25, "limit": 3680.0}
RESULT = {"bench": "decode", "question": "how close?", "device": "NVIDIA H200", "commit": "abc", "date": "2026-11-05",
          "rows": [STEP, UNEQUAL, EAGER], "notes": ["floor: read\nonce"]}
EMPTY = "before\n<!-- performance: decode@h200 -->\n<!-- end of performance -->\nwhat was tried\n"


class Performance(PageCase):
    SCRIPT = "performance"
    EMPTY = EMPTY

    def test_a_row_has_its_floor_gate_and_peers(self):
        self.write(RESULT)
        text = self.written()
        self.assertIn("| shape | batch | context | graphs | median | p10 – p90 | floor | of floor | gate | "
                      "PyTorch eager |\n", text)
        self.assertIn("| llama-8b | 8 | 512 | full | 4,000 µs | 3,990 – 4,010 µs | 3,400 µs | 85 % | "
                      "≤ 4,250 µs, held | 16,000 µs: 4.00× |\n", text)
        self.assertNotIn("against a peer", text)

    def test_says_how_many_gates_were_missed_and_which(self):
        self.write(RESULT)
        text = self.written()
        self.assertIn("2 gates, 1 held, 1 missed.\n", text)
        self.assertIn("≤ 3,680 µs, **missed** | 3,200 µs: 0.80× |\n", text)
        self.assertIn("\n**missed**: the figure does not meet the project's gate.", text)

    def test_says_how_many_runs_missed_a_gate(self):
        self.write({**RESULT, "rows": [{**STEP, "meets_limit": True, "runs": 3, "runs_missed": 1},
                                       {**UNEQUAL, "meets_limit": False, "runs": 3, "runs_missed": 3}]})
        text = self.written()
        self.assertIn("≤ 4,250 µs, held, missed in 1 of 3 runs |", text)
        self.assertIn("≤ 3,680 µs, **missed** in 3 of 3 runs |", text)
        self.assertIn("2 gates, 1 held, 1 missed.\n", text)

    def test_keeps_the_prose_and_the_notes(self):
        self.write(RESULT)
        text = self.written()
        self.assertTrue(text.startswith("before\n") and text.endswith("<!-- end of performance -->\nwhat was tried\n"))
        self.assertIn("- floor: read once\n", text)
        self.assertIn("<sub>NVIDIA H200, commit abc, 2026-11-05</sub>\n", text)

    def test_says_so_where_there_is_no_result(self):
        self.write({**RESULT, "bench": "prefill"})
        self.assertIn("No result of `decode` in bench/results/h200 yet", self.written())

    def test_check_fails_when_stale_and_writes_nothing(self):
        self.expect_check_to_fail_until_written(RESULT)

    def test_a_file_without_a_place_for_tables_is_an_error(self):
        self.file.write_text("nothing\n")
        done = self.run_script()
        self.assertEqual(1, done.returncode)
        self.assertIn("performance: BENCH@GPU", done.stdout)


if __name__ == "__main__":
    unittest.main()
