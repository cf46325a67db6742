#!/usr/bin/env python3
"""Tests of scripts/measurements.py, run as a program on a folder of its own."""
import unittest

from page_case import PageCase

RESULT = {"bench": "queue", "question": "does it pay?", "device": "NVIDIA H200", "commit": "abc", "date": "2026-11-05",
          "rows": [{"name": "warp", "params": {"batch": 32, "skew": 0.1}, "median": 2, "p10": 1, "p90": 3, "unit": "µs"}],
          "findings": [{"claim": "twice | as fast", "source": "a\nblog", "measured": "1.5 times", "verdict": "partly"},
                       {"claim": "free", "source": "a talk", "measured": "not", "verdict": "did not hold"}],
          "notes": ["one GPU"], "plots": [{"title": "time against batch"}]}
EMPTY = "before\n<!-- measurements: h200 -->\n<!-- end of measurements -->\nafter\n"


class Measurements(PageCase):
    SCRIPT = "measurements"
    EMPTY = EMPTY

    def test_states_claim_source_measurement_and_verdict(self):
        self.write(RESULT)
        text = self.written()
        self.assertIn("2 claims: 0 held, 1 partly, 1 did not hold.\n", text)
        self.assertIn("| [queue](#queue) | twice \\| as fast | a blog | 1.5 times | **partly** |\n", text)
        self.assertIn("## queue\n\nDoes it pay?\n", text)
        self.assertIn("| warp | 32 | 0.1 | 2.00 µs |", text)
        self.assertIn("- one GPU\n", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("<!-- end of measurements -->\nafter\n"))

    def test_the_first_page_has_the_counts(self):
        self.write(RESULT)
        readme = self.root / "README.md"
        readme.write_text("We have <!-- claims: h200 -->none<!-- end of claims -->.\n")
        self.file.write_text(self.EMPTY)
        self.assertEqual(0, self.run_script().returncode)
        self.assertEqual("We have <!-- claims: h200 -->2 claims about GPUs tested, 1 refuted<!-- end of claims -->.\n",
                         readme.read_text())
        self.assertEqual(0, self.run_script("--check").returncode)
        readme.write_text(readme.read_text().replace("1 refuted", "2 refuted"))
        done = self.run_script("--check")
        self.assertEqual((1, True), (done.returncode, "README.md: differs" in done.stdout), done.stdout)

    def test_shows_a_picture_where_there_is_one(self):
        self.write(RESULT)
        self.assertNotIn("![", self.written())
        (self.results / "queue.svg").write_text("<svg/>")
        self.assertIn("![time against batch](../bench/results/h200/queue.svg)\n", self.written())

    def test_leaves_out_results_without_a_claim(self):
        self.write(RESULT)
        self.write({key: value for key, value in {**RESULT, "bench": "overhead"}.items() if key != "findings"})
        self.assertNotIn("overhead", self.written())

    def test_says_so_where_there_are_no_results(self):
        self.assertIn("No results in bench/results/h200 yet", self.written())

    def test_folds_a_long_table(self):
        self.write({**RESULT, "rows": RESULT["rows"] * 40})
        self.assertIn("<details><summary>40 rows</summary>\n\n|", self.written())

    def test_marks_a_row_that_missed_its_gate(self):
        row = RESULT["rows"][0]
        self.write({**RESULT, "rows": [{**row, "limit": 1.5}, {**row, "limit": 2.5}]})
        text = self.written()
        self.assertIn("| 2.00 µs (gate 1.50 µs **missed**) |", text)
        self.assertEqual(1, text.count("(gate"))
        self.assertIn("\n**missed**: ", text)

    def test_check_fails_when_stale_and_writes_nothing(self):
        self.expect_check_to_fail_until_written(RESULT)

    def test_refuses_what_was_measured_with_too_few_samples(self):
        self.write({**RESULT, "is_quick": True})
        done = self.run_script()
        self.assertEqual(1, done.returncode)
        self.assertIn("queue.json: measured with --quick", done.stdout)


if __name__ == "__main__":
    unittest.main()
