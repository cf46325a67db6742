#!/usr/bin/env python3
"""A rank that is killed while two share a GPU: the other is told who it was, and in time.

Usage: gpu_faults_test.py <comm_process_fault>. Skips what needs a GPU, NVSHMEM or MPS where there is none.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]
ROOT = pathlib.Path(__file__).parents[2]
LONGEST = 45  # seconds; the deadline is 10 s, and NVSHMEM takes some to start


class GpuFaults(unittest.TestCase):
    def check(self, command, how, expected):
        done = subprocess.run([*command, "2", PROGRAM, how], capture_output=True, text=True, timeout=LONGEST, check=False)
        if reason := re.search("cannot try it here: (.*)", done.stdout):
            self.skipTest(reason[1])
        self.assertRegex(done.stdout, rf"(?m)^rank 0 after [\d.]+ s: rank 1 {expected}", done.stderr)

    @unittest.skipUnless(shutil.which("nvidia-cuda-mps-control"), "no nvidia-cuda-mps-control")
    def test_a_rank_killed_in_the_middle_of_sums_on_the_gpu_is_named(self):
        self.check([ROOT / "scripts/under_mps.sh"], "killed-on-gpu", "(has ended without leaving; then on rank 0: |left and did not )")

    def test_a_rank_is_named_where_cuda_says_that_the_gpu_is_lost(self):
        self.check([sys.executable, ROOT / "tests/comm/launch.py"], "gpu-lost",
                   "has ended without leaving; then on rank 0: .*cudaErrorIllegalAddress")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
