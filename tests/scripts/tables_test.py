#!/usr/bin/env python3
"""Tests of scripts/tables.py, run as a program on a folder of its own."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "tables.py"
RESULT = {"bench": "launch", "device": "NVIDIA H200", "driver": "580.1", "commit": "abc", "date": "2026-11-05",
          "rows": [{"name": "chain", "params": {"nodes": 1000}, "median": 12.34, "p10": 12.0, "p90": 13.0,
                    "unit": "µs", "baseline": 24.68, "ratio": 0.5}]}


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.readme = self.root / "README.md"
        self.write(RESULT)

    def write(self, result):
        path = self.root / "bench" / "results" / "h200" / "launch.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))

    def run_tables(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, "--root", self.root, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def test_writes_the_columns_asked_for(self):
        self.readme.write_text("before\n<!-- table: launch@h200 name=graph, nodes, median, baseline=raw CUDA, ratio -->\n"
                               "<!-- end -->\nafter\n")
        self.assertEqual(0, self.run_tables().returncode)
        text = self.readme.read_text()
        self.assertIn("| graph | nodes | median | raw CUDA | ratio |\n", text)
        self.assertIn("| chain | 1,000 | 12.3 µs | 24.7 µs | 0.50× |\n", text)
        self.assertIn("NVIDIA H200, driver 580.1, commit abc, 2026-11-05", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("<!-- end -->\nafter\n"))

    def test_check_fails_on_a_stale_table_and_passes_on_a_fresh_one(self):
        self.readme.write_text("<!-- table: launch -->\n<!-- end -->\n")
        self.assertEqual(1, self.run_tables("--check").returncode)
        self.assertEqual(0, self.run_tables().returncode)
        self.assertEqual(0, self.run_tables("--check").returncode)
        self.write({**RESULT, "device": "another"})
        self.assertEqual(1, self.run_tables("--check").returncode)

    def test_absent_fields_leave_their_columns_out(self):
        self.write({**RESULT, "rows": [{"name": "chain", "median": 1, "unit": "µs"}]})
        self.readme.write_text("<!-- table: launch -->\n<!-- end -->\n")
        self.run_tables()
        self.assertIn("|  | median |\n", self.readme.read_text())

    def test_puts_two_results_below_each_other(self):
        other = self.root / "bench" / "results" / "h200" / "replay.json"
        other.write_text(json.dumps({**RESULT, "bench": "replay", "rows": [{"name": "again", "median": 2, "unit": "µs"}]}))
        self.readme.write_text("<!-- table: launch+replay name, median -->\n<!-- end -->\n")
        self.assertEqual(0, self.run_tables().returncode)
        text = self.readme.read_text()
        self.assertIn("| chain | 12.3 µs |\n| again | 2.00 µs |\n", text)
        self.assertEqual(1, text.count("<sub>"))

    def test_params_are_written_for_people(self):
        self.write({**RESULT, "rows": [{**RESULT["rows"][0], "params": {"a": 0.1 + 0.2, "b": True, "c": "x", "d": 4096}}]})
        self.readme.write_text("<!-- table: launch a, b, c, d -->\n<!-- end -->\n")
        self.run_tables()
        self.assertIn("| 0.3 | yes | x | 4,096 |\n", self.readme.read_text())

    def test_refuses_what_was_measured_with_too_few_samples(self):
        self.write({**RESULT, "is_quick": True})
        done = self.run_tables()
        self.assertEqual(1, done.returncode)
        self.assertIn("launch.json: measured with --quick", done.stdout)

    def test_says_which_result_is_missing(self):
        self.readme.write_text("<!-- table: absent -->\n<!-- end -->\n")
        done = self.run_tables("--check")
        self.assertEqual(1, done.returncode)
        self.assertIn("README.md: no result of 'absent'", done.stdout)

    def test_says_which_column_is_unknown(self):
        self.readme.write_text("<!-- table: launch nmae -->\n<!-- end -->\n")
        self.assertIn("no row of launch has a column 'nmae'", self.run_tables().stdout)


if __name__ == "__main__":
    unittest.main()
