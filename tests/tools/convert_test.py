#!/usr/bin/env python3
"""Tests of `attacca convert --random`: convert_test.py <binary>."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from progress import without_progress

BINARY = os.path.abspath(sys.argv[1])


def attacca(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    done.stderr = without_progress(done.stderr)
    return done


class Random(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = cls.folder / "random.gguf"
        cls.done = attacca("convert", "--random", "smollm2-135m", "--weights", "q4_k", "-o", cls.model)

    def test_writes_a_model_of_that_shape_and_says_what_is_in_it(self):
        self.assertEqual((0, ""), (self.done.returncode, self.done.stderr))
        self.assertIn("Q4_K", self.done.stdout)
        self.assertIn("Q8_0", self.done.stdout)  # a row of 576 is not a whole number of blocks of 256
        found = attacca("inspect", self.model)
        self.assertIn("smollm2-135m with random weights", found.stdout)
        self.assertEqual([self.model.name], os.listdir(self.folder))

    def test_run_takes_it(self):
        done = attacca("run", self.model, "hi", "-n", "8", "--device", "host", "--ignore-end")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertGreater(len(done.stdout.strip()), 8)

    def test_a_file_that_exists_is_kept_unless_forced(self):
        path = self.folder / "kept"
        self.addCleanup(path.unlink)
        path.write_text("mine")
        done = attacca("convert", "--random", "smollm2-135m", "-o", path)
        self.assertEqual(1, done.returncode)
        self.assertIn("--force", done.stderr)
        self.assertEqual("mine", path.read_text())
        done = attacca("convert", "--random", "smollm2-135m", "--weights", "q4_0", "-o", path, "--force")
        self.assertEqual(0, done.returncode, done.stderr)
        with path.open("rb") as file:
            self.assertEqual(b"GGUF", file.read(4))

    def test_a_signal_ends_it_and_leaves_no_part_of_a_file(self):
        for number in signal.SIGINT, signal.SIGTERM:
            with self.subTest(number), tempfile.TemporaryDirectory() as folder:
                part = pathlib.Path(folder) / "large.gguf.part"
                with subprocess.Popen([BINARY, "convert", "--random", "llama-1b", "-o", part.with_suffix("")],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
                    deadline = time.monotonic() + 60
                    while not (part.exists() and part.stat().st_size > 1 << 24) and time.monotonic() < deadline:
                        self.assertIsNone(running.poll(), "it ended before the signal")
                        time.sleep(0.01)
                    running.send_signal(number)
                    self.assertEqual(-number, running.wait(60))
                self.assertEqual([], os.listdir(folder))

    def test_what_cannot_be_is_refused_by_name(self):
        output = self.folder / "none.gguf"
        for arguments, status, words in (
                (["--random", "llama-2b"], 2, ["'llama-2b'", "llama-1b, llama-8b"]),
                (["--random", "llama-1b", "--weights", "q3_k"], 2, ["q3_k", "q4_k"]),
                (["--random", "llama-1b", "--tokenizer", "nowhere.gguf"], 1, ["nowhere.gguf"]),
                (["model.bin"], 2, ["--tokenizer"]),
                ([], 2, ["--random"])):
            done = attacca("convert", *arguments, "-o", output)
            self.assertEqual(status, done.returncode, arguments)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertFalse(output.exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
