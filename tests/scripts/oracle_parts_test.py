#!/usr/bin/env python3
"""Tests of what scripts/oracle.sh is said to do: its parts, and where its packages come from."""
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / "scripts" / "oracle.sh").read_text()


class OracleParts(unittest.TestCase):
    def test_make_help_and_the_first_lines_name_every_part(self):
        parts = re.search(r"parts=\(([a-z0-9 ]+)\)", SCRIPT)[1].split()
        self.assertEqual(parts, re.search(r"\(ORACLE=: ([a-z0-9 ]+)\)", (ROOT / "Makefile").read_text())[1].split())
        self.assertEqual(parts, re.findall(r"^#   ([a-z0-9]+)  ", SCRIPT, re.MULTILINE))
        for part in parts:
            self.assertRegex(SCRIPT, rf"(?m)^    {part}\)")

    def test_torch_comes_from_the_index_that_the_user_names_and_no_script_names_one(self):
        for script in ROOT.glob("scripts/*.sh"):
            self.assertNotRegex(script.read_text(), r"https?://(?!127\.0\.0\.1|localhost)\w", script.name)
        function = re.search(r"need_torch\(\) \{.*?\n\}", SCRIPT, re.DOTALL)[0]
        with tempfile.TemporaryDirectory() as folder:
            pip = pathlib.Path(folder) / "bin" / "pip"
            pip.parent.mkdir()
            pip.write_text('#!/bin/sh\necho "$@"\n')
            pip.chmod(0o755)
            for index, words in (None, "install --quiet torch\n"), ("x y", "install --quiet --index-url x y torch\n"):
                done = subprocess.run(["bash", "-euc", f"need() {{ :; }}; venv={folder}; {function}\nneed_torch"],
                                      env={"PATH": "/usr/bin:/bin", **({"TORCH_INDEX": index} if index else {})},
                                      stdout=subprocess.PIPE, text=True, check=True)
                self.assertEqual(words, done.stdout)


if __name__ == "__main__":
    unittest.main()
