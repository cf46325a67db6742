#!/usr/bin/env python3
"""Tests of `attacca serve --ranks`: serve_ranks_test.py <binary> [<mpirun>]. Without mpirun that of MPI is skipped."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest
import urllib.request

sys.path.append(str(pathlib.Path(__file__).parent.parent / "comm"))
import launch  # noqa: E402

BINARY = sys.argv[1]
MPIRUN = sys.argv[2] if len(sys.argv) > 2 else ""


def run(*arguments):
    return subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=60, check=False)


def story_of_one_rank():
    text = run("run", "--plain", "Once upon a time", "--temperature", "0", "-n", "40").stdout
    return text.removeprefix("Once upon a time").rstrip("\n")


@contextlib.contextmanager
def server(*command):
    """The process and the address of a server, which is told to stop at the end, and must say so. mpirun exits with a status of its own."""
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().split()[-1]
            process.send_signal(signal.SIGTERM)
            log = process.communicate(timeout=30)[1]
            assert " stopping; " in log and (process.returncode == 0 or command[0] == MPIRUN), log
        finally:
            process.kill()


def children_of(process):
    lists = pathlib.Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(child) for children in lists for child in children.read_text().split()]


def complete(address):
    body = json.dumps({"prompt": "Once upon a time", "temperature": 0, "max_tokens": 40}).encode()
    with urllib.request.urlopen(f"{address}/v1/completions", body, timeout=30) as reply:
        return json.load(reply)["choices"][0]["text"]


class ServeRanks(unittest.TestCase):
    def test_a_server_over_two_ranks_tells_the_story_of_one(self):
        with server(BINARY, "serve", "--ranks", "2") as (_, address):
            stories = [complete(address), complete(address)]
        self.assertEqual([story_of_one_rank()] * 2, stories)

    @unittest.skipUnless(MPIRUN, "no mpirun")
    def test_a_server_of_two_processes_tells_the_story_of_one(self):
        with server(MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "2", BINARY, "serve", "--ranks",
                    "2") as (process, address):
            for rank in children_of(process):
                os.kill(rank, signal.SIGHUP)  # with nothing to read again none may end
            story = complete(address)
        self.assertEqual(story_of_one_rank(), story)

    def test_a_rank_that_ends_or_stands_still_while_nobody_asks_ends_the_server_which_names_it(self):
        for sign, expected in ((signal.SIGKILL, "rank 1 has ended without leaving"),
                               (signal.SIGSTOP, "rank 1 did not come to barrier")):
            command = [BINARY, "serve", "--ranks", "2", "--port", "0", "--rank-deadline", "2"]
            first, second = launch.start(2, command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                complete(first.stdout.readline().split()[-1])
                second.send_signal(sign)
                log = first.communicate(timeout=30)[1]
            finally:
                for process in first, second:
                    process.kill()
                    process.wait()
                second.communicate()
            self.assertIn(f"the device is lost: {expected}", log)
            self.assertEqual(1, first.returncode)

    def test_several_models_over_ranks_are_refused(self):
        done = run("serve", "--ranks", "2", "--model", "story=small")
        self.assertEqual(2, done.returncode)
        self.assertIn("--ranks is for one model that stays loaded", done.stderr)

    def test_a_count_of_ranks_that_does_not_divide_is_refused(self):
        done = run("serve", "--ranks", "3", "--port", "0")
        self.assertEqual(1, done.returncode)
        self.assertIn("3 ranks cannot divide its 2 heads of keys and values", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
