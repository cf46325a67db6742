#!/usr/bin/env python3
"""A rank that is killed while both share a GPU through NVSHMEM, under MPS: the other is told who it was, and in time.

Usage: gpu_faults_test.py <comm_process_fault>. Skips where there is no GPU, no NVSHMEM or no MPS.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

PROGRAM = sys.argv[1]
UNDER_MPS = pathlib.Path(__file__).parents[2] / "scripts/under_mps.sh"
LONGEST = 45  # seconds; NVSHMEM takes some to start


class GpuFaults(unittest.TestCase):
    @unittest.skipUnless(shutil.which("nvidia-cuda-mps-control"), "no nvidia-cuda-mps-control")
    def test_a_rank_killed_in_the_middle_of_sums_on_the_gpu_is_named(self):
        done = subprocess.run([UNDER_MPS, "2", PROGRAM, "killed-on-gpu"], capture_output=True, text=True, timeout=LONGEST,
                              check=False)
        if reason := re.search("cannot try it here: (.*)", done.stdout):
            self.skipTest(reason[1])
        self.assertRegex(done.stdout, "(?m)^rank 0: rank 1 (has ended without leaving; then on rank 0: |left and did not )",
                         done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
