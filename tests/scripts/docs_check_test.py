#!/usr/bin/env python3
"""Tests of scripts/docs_check.py, run as a program on a folder of its own."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "docs_check.py"


class DocsCheck(unittest.TestCase):
    def check(self, text, *arguments, **others):
        with tempfile.TemporaryDirectory() as folder:
            for name, content in {"README": text, **others}.items():
                path = pathlib.Path(folder, f"{name}.md")
                path.parent.mkdir(exist_ok=True)
                path.write_text(content)
            return subprocess.run([sys.executable, SCRIPT, "--root", folder, *arguments], stdout=subprocess.PIPE,
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

    def test_a_link_to_a_heading_or_a_file_that_is_not_there_fails(self):
        page = "# Title\n\n## What's `new`, and why?\n\n```sh\n# no heading\n```\n"
        good = "[a](docs/page.md#whats-new-and-why) [b](docs/page.md) [c](https://x.org/y#z) `x[0](nowhere)` [d](#here)\n# Here\n"
        done = self.check(good, "--links", **{"docs/page": page})
        self.assertEqual((0, True), (done.returncode, "0 links lead nowhere" in done.stdout), done.stdout)
        done = self.check("text\n[a](docs/page.md#no-heading) [b](other.md)\n", **{"docs/page": page, "CONTRIBUTING": "[c](x.md)\n"})
        self.assertEqual(1, done.returncode)
        self.assertIn("README.md:2: docs/page.md has no heading 'no-heading'", done.stdout)
        self.assertIn("README.md:2: there is no other.md", done.stdout)
        self.assertIn("CONTRIBUTING.md:1: there is no x.md", done.stdout)

    def test_runs_only_the_pages_asked_for(self):
        done = self.check("```sh\nfalse\n```\n", "docs/page.md", **{"docs/page": "```sh\ntrue\n```\n"})
        self.assertEqual((0, True), (done.returncode, "1 blocks run, 0 failed" in done.stdout), done.stdout)


if __name__ == "__main__":
    unittest.main()
