#!/usr/bin/env python3
"""Tests of `attacca score` with a text longer than the longest sequence: score_test.py <binary>."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = sys.argv[1]
TEXT = "Once upon a time, a fox lived in the forest. " * 10


class Score(unittest.TestCase):
    def score(self, *options):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text(TEXT)
            done = subprocess.run([BINARY, "score", "small", "--text", str(text), "--summary", *options],
                                  capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_sequences_of_one_token_are_refused(self):
        done = subprocess.run([BINARY, "score", "small", "--text", __file__, "--context", "1"], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("give 2 or more", done.stderr)

    def test_progress_is_told_without_a_terminal_too(self):
        with tempfile.TemporaryDirectory() as folder:
            text = pathlib.Path(folder) / "text.txt"
            text.write_text(TEXT * 1000)  # a minute's work
            with subprocess.Popen([BINARY, "score", "small", "--text", str(text), "--summary", "--context", "64"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
                line = running.stderr.readline()
                running.kill()
        self.assertRegex(line, r"^scoring: \d+ %$")

    def test_a_text_is_cut_by_what_the_pages_hold(self):
        whole = self.score()
        self.assertEqual(whole["tokens"] - 1, whole["scored"])
        cut = self.score("--pages", "2", "--page-size", "16")
        pieces = [min(32, whole["tokens"] - first) for first in range(0, whole["tokens"], 32)]
        self.assertGreater(len(pieces), 2)
        self.assertEqual(sum(size - 1 for size in pieces), cut["scored"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
