#!/usr/bin/env python3
"""Tests of `attacca graph`, `attacca example` and `attacca demo`: examples_test.py <binary>."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = os.path.abspath(sys.argv[1])


def attacca(*arguments, folder=None, **environment):
    return subprocess.run([BINARY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          cwd=folder, env={**os.environ, **environment})


class Graph(unittest.TestCase):
    def test_prints_text_unless_asked_otherwise(self):
        done = attacca("graph", "replay", "--device", "host")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(done.stdout.startswith("replay on host\n"), done.stdout)
        self.assertEqual(done.stdout, attacca("graph", "replay", "--text", "--device", "host").stdout)

    def test_prints_json_and_dot(self):
        graph = json.loads(attacca("graph", "heat", "--json", "--device", "host").stdout)
        self.assertEqual("while", graph["nodes"][0]["kind"])
        self.assertTrue(attacca("graph", "heat", "--dot", "--device", "host").stdout.startswith("digraph"))

    def test_prints_the_same_every_time(self):
        for form in "--text", "--dot", "--json":
            once, twice = (attacca("graph", "heat", form, "--device", "host").stdout for _ in range(2))
            self.assertEqual(once, twice)

    def test_takes_one_format(self):
        self.assertEqual(2, attacca("graph", "heat", "--dot", "--json").returncode)

    def test_an_unknown_example_lists_the_known_ones(self):
        for command in "graph", "example":
            done = attacca(command, "heath")
            self.assertEqual(2, done.returncode)
            self.assertIn("'heath'", done.stderr)
            self.assertIn("replay, batch_sizes, heat", done.stderr)

    def test_writes_a_file_whose_name_has_odd_characters(self):
        with tempfile.TemporaryDirectory() as folder:
            for form in ["--text"] + (["--svg"] if shutil.which("dot") else []):
                path = pathlib.Path(folder, f"a \"quoted\" $HOME 'name'{form}")
                done = attacca("graph", "heat", form, "--device", "host", "-o", str(path))
                self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)
                self.assertIn("until steady", path.read_text())

    def test_a_file_that_cannot_be_written_is_an_error(self):
        done = attacca("graph", "heat", "--device", "host", "-o", "/no-such-folder/file")
        self.assertEqual(1, done.returncode)
        self.assertIn("/no-such-folder/file", done.stderr)

    def test_svg_without_graphviz_says_how_to_get_it(self):
        done = attacca("graph", "heat", "--svg", "--device", "host", PATH="/no-such-folder")
        self.assertEqual(1, done.returncode)
        self.assertIn("graphviz", done.stderr)


class Example(unittest.TestCase):
    def test_lists_them_with_what_they_show(self):
        lines = attacca("example").stdout.splitlines()
        self.assertEqual("replay", lines[0].split()[0])
        self.assertEqual(9, lines.index(""))

    def test_runs_one_on_the_device_it_is_told(self):
        done = attacca("example", "batch_sizes", "--device", "host-serial")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(done.stdout.startswith("batch_sizes on host-serial\n"), done.stdout)

    def test_none_leaves_a_file_behind_unasked(self):
        names = [line.split()[0] for line in attacca("example").stdout.splitlines()[:6]]
        with tempfile.TemporaryDirectory() as folder:
            work, temporary = pathlib.Path(folder, "work"), pathlib.Path(folder, "temporary")
            work.mkdir()
            temporary.mkdir()
            for name in names:
                done = attacca("example", name, "--device", "host", folder=work, TMPDIR=str(temporary))
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertEqual(([], []), (os.listdir(work), os.listdir(temporary)), name)

    def test_one_that_makes_a_file_writes_it_where_it_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            done = attacca("example", "nested_mandelbrot", "--device", "host", "-o", "image.pgm", folder=folder)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertIn("image.pgm", done.stdout)
            self.assertEqual(["image.pgm"], os.listdir(folder))
            self.assertTrue(pathlib.Path(folder, "image.pgm").read_bytes().startswith(b"P5 "))
        done = attacca("example", "nested_mandelbrot", "--device", "host", "-o", "/no-such-folder/image.pgm")
        self.assertEqual(1, done.returncode)
        self.assertIn("/no-such-folder/image.pgm", done.stderr)
        self.assertEqual("", done.stdout, "it is noticed before the example runs")
        done = attacca("example", "heat", "--device", "host", "-o", "/no-such-folder/heat")
        self.assertEqual(2, done.returncode)
        self.assertIn("makes no file", done.stderr)

    def test_the_pipeline_writes_a_trace_of_both_stages(self):
        with tempfile.TemporaryDirectory() as folder:
            done = attacca("example", "pipeline", "--device", "host", "-o", "pipeline.json", folder=folder)
            self.assertEqual(0, done.returncode, done.stderr)
            done = attacca("trace", "pipeline.json", folder=folder)
            self.assertEqual(0, done.returncode, done.stderr)
            for words in ("stage one, host", "stage two, host", "hand over", "wait until full"):
                self.assertIn(words, done.stdout)

    def test_an_unknown_device_is_refused_by_name(self):
        done = attacca("example", "heat", "--device", "abacus")
        self.assertEqual(2, done.returncode)
        self.assertIn("abacus", done.stderr)


class Demo(unittest.TestCase):
    def test_shows_graph_plan_and_times_in_100_plain_columns(self):
        done = attacca("demo", "--device", "host")
        self.assertEqual(0, done.returncode, done.stderr)
        for part in "while  until steady", "measured on this machine", "relax", "passes", "idle":
            self.assertIn(part, done.stdout)
        self.assertNotIn("\033", done.stdout)
        for line in done.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)
            self.assertEqual(line.rstrip(), line)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
