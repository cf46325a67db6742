#!/usr/bin/env python3
"""Tests of launch.py: which status a launch ends with."""
import pathlib
import subprocess
import sys
import unittest

LAUNCH = pathlib.Path(__file__).with_name("launch.py")


def status_of(*statuses):
    """Of a launch whose ranks end with these."""
    program = f"import os, sys; sys.exit({statuses}[int(os.environ['RANK'])])"
    return subprocess.run([sys.executable, LAUNCH, str(len(statuses)), sys.executable, "-c", program],
                          check=False).returncode


class Launches(unittest.TestCase):
    def test_a_launch_is_skipped_if_all_ranks_are(self):
        self.assertEqual(status_of(77, 77), 77)

    def test_a_launch_fails_if_only_some_ranks_are_skipped(self):
        self.assertEqual(status_of(77, 0), 1)
        self.assertEqual(status_of(0, 77), 1)

    def test_a_launch_fails_with_the_status_of_a_rank_that_does(self):
        self.assertEqual(status_of(77, 3), 3)
        self.assertEqual(status_of(0, 2), 2)
        self.assertEqual(status_of(0, 0), 0)


if __name__ == "__main__":
    unittest.main()
