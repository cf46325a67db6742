"""A test case for scripts that write a page of docs/ from benchmark results: a folder of its own, with an empty page."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class PageCase(unittest.TestCase):
    SCRIPT = None  # the name of the script, without .py, and of the page
    EMPTY = None  # the page before there are results

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.results = self.root / "bench" / "results" / "h200"
        self.results.mkdir(parents=True)
        self.file = self.root / "docs" / f"{self.SCRIPT}.md"
        self.file.parent.mkdir()
        self.file.write_text(self.EMPTY)

    def write(self, result):
        (self.results / f"{result['bench']}.json").write_text(json.dumps(result))

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPTS / f"{self.SCRIPT}.py", "--root", self.root, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def written(self):
        done = self.run_script()
        self.assertEqual(0, done.returncode, done.stdout)
        return self.file.read_text()

    def expect_check_to_fail_until_written(self, result):
        self.write(result)
        done = self.run_script("--check")
        self.assertEqual(1, done.returncode)
        self.assertIn(f"{self.SCRIPT}.md: differs", done.stdout)
        self.assertEqual(self.EMPTY, self.file.read_text())
        self.written()
        self.assertEqual(0, self.run_script("--check").returncode)
