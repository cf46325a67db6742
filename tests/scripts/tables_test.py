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

    def write_gated(self, **fields):
        """Writes two rows: the first holds its gate, the second has `fields`."""
        gated = {"median": 10.6, "p10": 10, "p90": 11, "unit": "µs", "baseline": 10.0, "ratio": 1.06, "limit": 10.5}
        self.write({**RESULT, "rows": [{"name": "held", **gated, "median": 10.4, "ratio": 1.04},
                                       {"name": "chain", "params": {"nodes": 500}, **gated, **fields}]})

    def table(self, columns=""):
        self.readme.write_text(f"<!-- table: launch {columns} -->\n<!-- end -->\n")
        done = self.run_tables()
        self.assertEqual(0, done.returncode, done.stdout)
        return self.readme.read_text()

    def test_marks_a_row_that_missed_its_gate_and_no_other(self):
        self.write_gated()
        text = self.table("name, ratio")
        self.assertIn("| held | 1.04× |\n", text)
        self.assertIn("| chain | 1.06× (gate 1.05× **missed**) |\n", text)
        self.assertEqual(1, text.count("\n**missed**: the figure does not meet the project's gate."))
        self.assertEqual(text, self.table("name, ratio"))

    def test_marks_the_median_where_no_ratio_is_shown(self):
        self.write_gated()
        self.assertIn("| chain | 10.6 µs (gate 10.5 µs **missed**) |\n", self.table("name, median"))

    def test_says_nothing_of_marks_where_all_gates_hold(self):
        self.write_gated(median=10.0, ratio=1.0)
        self.assertNotIn("missed", self.table())

    def test_a_rate_misses_its_gate_from_below(self):
        self.write_gated(is_rate=True, median=10.4, ratio=1.04)
        self.assertIn("| chain | 1.04× (gate 1.05× **missed**) |\n", self.table("name, ratio"))

    def test_a_mark_shows_as_many_digits_as_tell_the_figure_from_the_gate(self):
        self.write_gated(median=10.502, ratio=1.0502)
        self.assertIn("| 1.05× (1.0502×, gate 1.0500× **missed**) |\n", self.table("name, ratio"))

    def test_leaves_only_the_rows_of_a_name(self):
        self.write_gated()
        text = self.table('"held" name, ratio')
        self.assertIn("| held | 1.04× |\n", text)
        self.assertNotIn("chain", text)
        self.readme.write_text('<!-- table: launch "none" name -->\n<!-- end -->\n')
        done = self.run_tables()
        self.assertEqual((1, True), (done.returncode, "no row 'none'" in done.stdout), done.stdout)

    def test_leaves_only_the_rows_with_a_parameter(self):
        self.write({**RESULT, "rows": [{"name": "chain", "params": {"nodes": nodes}, "median": nodes, "unit": "µs"}
                                       for nodes in (10, 500)]})
        text = self.table("[nodes=500] name, median")
        self.assertIn("| chain | 500 µs |\n", text)
        self.assertNotIn("10.0 µs", text)
        self.readme.write_text('<!-- table: launch "chain" [nodes=7] name -->\n<!-- end -->\n')
        done = self.run_tables()
        self.assertEqual((1, True), (done.returncode, "no row 'chain' [nodes=7]" in done.stdout), done.stdout)

    def test_says_how_many_runs_missed(self):
        self.write_gated(meets_limit=False, runs=3, runs_missed=3)
        self.assertIn("| 1.06× (gate 1.05× **missed** in 3 of 3 runs) |\n", self.table("name, ratio"))
        self.write_gated(meets_limit=True, runs=2, runs_missed=1)
        text = self.table("name, ratio")
        self.assertIn("| 1.06× (gate 1.05× held, missed in 1 of 2 runs) |\n", text)
        self.assertIn("the figure is the first run's", text)

    def test_gives_the_reason_of_a_miss_that_is_known(self):
        entry = {"bench": "launch", "device": "NVIDIA H200", "row": "chain", "params": {"nodes": 500},
                 "reason": "The queue is full.", "since": "abc"}
        (self.root / "bench" / "known_misses.json").write_text(json.dumps([entry, {**entry, "device": "another"}]))
        self.write_gated()
        text = self.table()
        self.assertEqual(1, text.count("- known miss since abc: chain, nodes 500. The queue is full.\n"))
        self.write_gated(median=10.0, ratio=1.0)
        self.assertNotIn("known miss", self.table())

    def test_checks_beside_the_results_are_no_result(self):
        (self.root / "bench" / "results" / "h200" / "checks.json").write_text("{}")
        self.assertIn("| chain |", self.table("name"))

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

    def test_a_result_that_may_be_missing_is_shown_once_it_is_there(self):
        self.readme.write_text("<!-- table: absent?@h200 -->\nold\n<!-- end -->\n")
        self.assertEqual(0, self.run_tables().returncode)
        self.assertIn("-->\nNot measured yet.\n<!-- end -->", self.readme.read_text())
        self.assertEqual(0, self.run_tables("--check").returncode)
        self.readme.write_text("<!-- table: launch?@h200 name -->\n<!-- end -->\n")
        self.assertEqual(0, self.run_tables().returncode)
        self.assertIn("| chain |", self.readme.read_text())

    def test_says_which_column_is_unknown(self):
        self.readme.write_text("<!-- table: launch nmae -->\n<!-- end -->\n")
        self.assertIn("no row of launch has a column 'nmae'", self.run_tables().stdout)


if __name__ == "__main__":
    unittest.main()
