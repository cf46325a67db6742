#!/usr/bin/env python3
"""Tests of scripts/serve_record.py on the host, with the embedded model: serve_record_test.py <binary>."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = sys.argv[1]
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "serve_record.py"


class Record(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name) / "results" / "record.json"

    def record(self, what, *options):
        done = subprocess.run([sys.executable, SCRIPT, what, BINARY, "--on", "host", "--out", self.out, "--commit", "abc", *options],
                              capture_output=True, text=True, timeout=200)
        return done, json.loads(self.out.read_text())

    def test_figures_are_compared_with_the_engine_in_process(self):
        done, result = self.record("figures", "--quick", "--concurrency", "2", "--prompt", "24", "--output", "4", "--rounds", "1",
                                   "--alone", "2", "--hog", "1")
        self.assertIn(done.returncode, (0, 1), done.stderr)  # gates may be missed here
        self.assertEqual(("serve", "abc", True), (result["bench"], result["commit"], result["is_quick"]))
        rows = {(row["name"], *row["params"].values()): row for row in result["rows"]}
        self.assertEqual(10, len(rows))
        for scheduler in "host", "resident":
            output, first = rows["output", scheduler], rows["first token at low load", scheduler]
            self.assertAlmostEqual(0.85, output["limit"] / output["baseline"])
            self.assertAlmostEqual(1.2, first["limit"] / first["baseline"])
            self.assertGreater(rows["inter-token p99", scheduler, 1]["median"], 0)
        missed = [row for row in rows.values() if "limit" in row and
                  (row["median"] < row["limit"] if row.get("is_rate") else row["median"] > row["limit"])]
        self.assertEqual(1 if missed else 0, done.returncode)

    def test_a_soak_of_both_schedulers_says_what_was_complete(self):
        done, result = self.record("soak", "--streams", "24", "--slots", "4", "--pages", "1024", "--seconds", "4")
        self.assertEqual(0, done.returncode, done.stderr)
        soaks = [row["params"] for row in result["rows"] if row["name"] == "soak"]
        self.assertEqual(["host", "resident"], [params["scheduler"] for params in soaks])
        for params in soaks:
            self.assertGreater(params["complete"], 0)
            self.assertEqual(0, params["pages in use"])

    def test_a_soak_that_cannot_start_fails_and_says_why(self):
        done, result = self.record("soak", "--on", "nowhere", "--seconds", "1")
        self.assertEqual((1, []), (done.returncode, result["rows"]))
        self.assertIn("no device 'nowhere'", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
