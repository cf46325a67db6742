#!/usr/bin/env python3
"""Tests of scripts/docs_check.py, run as a program on a folder of its own."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "docs_check.py"


class DocsCheck(unittest.TestCase):
    def check(self, text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "README.md").write_text(text)
            return subprocess.run([sys.executable, SCRIPT, "--root", folder], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)

    def test_runs_sh_lines_and_console_prompts(self):
        done = self.check("```sh\necho one \\\n  two\n```\n```console\n$ echo three\nnot a command\n```\n")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("one two", done.stdout)
        self.assertIn("\nthree", done.stdout)
        self.assertIn("2 blocks run, 0 failed", done.stdout)

    def test_names_the_block_and_the_command_that_failed(self):
        done = self.check("text\n```sh\ntrue\nls no-such-file\n```\n")
        self.assertEqual(1, done.returncode)
        self.assertIn("README.md:2: exit status", done.stdout)
        self.assertIn("failed: ls no-such-file", done.stdout)

    def test_leaves_out_what_says_so(self):
        done = self.check("<!-- not run: needs a GPU -->\n```sh\nfalse\n```\n"
                          "```sh\n<!-- not run: slow -->\nfalse\necho rest\n```\n```cpp\nfalse\n```\n")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("not run: needs a GPU", done.stdout)
        self.assertIn("1 blocks run", done.stdout)


if __name__ == "__main__":
    unittest.main()
