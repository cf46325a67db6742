#!/usr/bin/env python3
"""Tests of the attacca command and of `attacca doctor`: doctor_test.py <binary> <version> <1 for a CUDA build>."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY, VERSION, WITH_CUDA = sys.argv[1], sys.argv[2], sys.argv[3] == "1"


def attacca(*arguments, **environment):
    return subprocess.run([BINARY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env=os.environ | environment)


class Command(unittest.TestCase):
    def test_says_its_version(self):
        done = attacca("--version")
        self.assertEqual((0, f"attacca {VERSION}\n"), (done.returncode, done.stdout))

    def test_help_shows_examples(self):
        done = attacca("--help")
        self.assertEqual(0, done.returncode)
        self.assertIn("attacca doctor --json", done.stdout)

    def test_wrong_usage_exits_with_2_and_says_why(self):
        done = attacca("doctor", "--no-such-option")
        self.assertEqual(2, done.returncode)
        self.assertTrue(done.stderr.startswith("attacca: "), done.stderr)
        self.assertIn("--no-such-option", done.stderr)


class Doctor(unittest.TestCase):
    def test_json_has_what_a_program_needs(self):
        done = attacca("doctor", "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(VERSION, report["version"])
        self.assertEqual(["host", "cuda"] if WITH_CUDA else ["host"], report["backends"])
        self.assertTrue(report["cpu"]["model"])
        self.assertGreaterEqual(report["cpu"]["cores"], 1)
        self.assertGreater(report["memory_bytes"], 0)
        self.assertEqual(WITH_CUDA, report["cuda"]["runtime_version"] is not None)
        self.assertEqual(["NCCL", "NVSHMEM", "MPI", "CUPTI"], [library["name"] for library in report["libraries"]])
        for library in report["libraries"]:
            self.assertEqual(library["found"], library["path"] is not None)
        self.assertTrue(report["ranks"]["loopback"])
        self.assertTrue(report["ranks"]["mpi_library"])
        linked = [library["name"] for library in report["libraries"] if library["linked"]]
        self.assertEqual(["MPI"] if report["ranks"]["mpi"] else [], linked)
        for gpu in report["gpus"]:
            self.assertGreater(gpu["multiprocessors"], 0)
            self.assertGreater(gpu["memory_bytes"], 0)
            self.assertGreater(gpu["peak_bytes_per_second"], 0)
        self.assertEqual(bool(report["gpus"]), report["cuda"]["error"] is None)
        for missing in report["missing"]:
            self.assertTrue(missing["what"] and missing["how_to_get_it"])

    def test_mps_is_found_where_its_daemon_lives(self):
        with tempfile.TemporaryDirectory() as folder:
            pipes = pathlib.Path(folder)

            def has_mps():
                done = attacca("doctor", "--json", CUDA_MPS_PIPE_DIRECTORY=folder)
                return json.loads(done.stdout)["ranks"]["mps"]

            self.assertFalse(has_mps())
            (pipes / "control").touch()
            (pipes / "nvidia-cuda-mps-control.pid").write_text(f"{os.getpid()}\n")
            self.assertTrue(has_mps())
            with subprocess.Popen(["true"]) as ended:
                pass
            (pipes / "nvidia-cuda-mps-control.pid").write_text(f"{ended.pid}\n")
            self.assertFalse(has_mps())

    def test_text_names_what_is_missing_and_the_remedy(self):
        done = attacca("doctor")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("processor", done.stdout)
        if not WITH_CUDA:
            self.assertIn("cmake --preset cuda", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
