#!/usr/bin/env python3
"""Tests of scripts/demo_output.py, run as a program on a folder of its own."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "demo_output.py"
MAKEFILE = """demo: deps ## tell a story
\t@echo built
\t@./tell

test: deps
\t@false
"""
TELL = r"""#!/bin/sh
printf 'Once %s\n\nThen.\n\nThe end.\n' "$(seq -s ' ' 60)"
printf 'memory    %s\nprompt    3 tokens\ndecode    9 tokens/s\nfloor     1 ms\nseed      7\n' "$(seq -s ' ' 60)" >&2
"""
EMPTY = "before\n<!-- demo -->\nold\n<!-- end of demo -->\nafter\n"


class DemoOutput(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "Makefile").write_text(MAKEFILE)
        (self.root / "tell").write_text(TELL)
        (self.root / "tell").chmod(0o755)
        self.readme, self.page = self.root / "README.md", self.root / "docs" / "engine.md"
        self.readme.write_text(EMPTY)
        self.page.write_text(EMPTY)

    def run_script(self):
        return subprocess.run([sys.executable, SCRIPT, "--root", self.root], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def block(self, path):
        text = path.read_text()
        self.assertTrue(text.startswith("before\n<!-- demo -->\n```text\n"), text)
        self.assertTrue(text.endswith("```\n<!-- end of demo -->\nafter\n"), text)
        return text.split("```text\n")[1].split("```")[0].splitlines()

    def test_the_first_page_has_six_lines(self):
        self.assertEqual(0, self.run_script().returncode)
        lines = self.block(self.readme)
        self.assertRegex(lines[0], r"^Once 1 2 3 .* …$")
        self.assertEqual(["…", "The end.", "prompt    3 tokens", "decode    9 tokens/s", "floor     1 ms"], lines[1:])

    def test_the_engine_page_has_all_of_it(self):
        self.assertEqual(0, self.run_script().returncode)
        text = "\n".join(self.block(self.page))
        self.assertIn("58 59 60\n\nThen.\n\nThe end.\n\nmemory    1 2 3", text)
        self.assertTrue(text.endswith("prompt    3 tokens\ndecode    9 tokens/s\nfloor     1 ms\nseed      7"), text)
        self.assertTrue(all(len(line) <= 118 for line in text.splitlines()))

    def test_a_page_without_a_place_for_it_is_an_error(self):
        self.page.write_text("nothing\n")
        done = self.run_script()
        self.assertEqual(1, done.returncode)
        self.assertIn("engine.md: no '<!-- demo -->'", done.stdout)


if __name__ == "__main__":
    unittest.main()
