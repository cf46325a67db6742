#!/usr/bin/env python3
"""Tests of `attacca serve` in a build without the server: no_serve_test.py <binary>."""
import subprocess
import sys
import unittest

BINARY = sys.argv[1]


class NoServeTest(unittest.TestCase):
    def test_serve_says_in_one_line_which_command_builds_a_server(self):
        done = subprocess.run([BINARY, "serve", "small", "--port", "0"], capture_output=True, text=True, timeout=60)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertEqual("attacca: this build has no server; `make demo` builds one, and so does CMake with "
                         "-DATTACCA_SERVE=ON after `make deps`\n", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
