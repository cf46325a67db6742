#!/usr/bin/env python3
"""Tests of `attacca run --ranks`: ranks_test.py <binary> [<mpirun>]. Without mpirun those of MPI are skipped."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from progress import without_progress

sys.path.append(str(pathlib.Path(__file__).parent.parent / "comm"))
import launch  # noqa: E402

BINARY = sys.argv[1]
MPIRUN = sys.argv[2] if len(sys.argv) > 2 else ""
STORY = ["run", "--plain", "Once upon a time", "--temperature", "0", "-n", "40"]
TALES = [BINARY, "run", "--plain", "Once", "--samples", "2000", "--ignore-end", "-n", "400", "--ranks", "2"]  # endless
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
SOME = 200  # letters: who has read them from rank 0 knows that both are in the middle of it


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    done.stderr = without_progress(done.stderr)
    return done


def mpirun(ranks, *arguments):
    return run(MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), BINARY, *arguments)


class Threads(unittest.TestCase):
    def test_nccl_is_refused_on_the_host(self):
        done = run(BINARY, *STORY, "--ranks", "2", "--rank-transport", "nccl", "--device", "host")
        self.assertEqual(done.returncode, 1)
        self.assertIn("NCCL moves memory of GPUs, and host is none", done.stderr)

    def test_two_ranks_tell_the_story_of_one(self):
        one, two = run(BINARY, *STORY), run(BINARY, *STORY, "--ranks", "2")
        self.assertEqual((one.returncode, two.returncode), (0, 0), two.stderr)
        self.assertEqual(two.stdout, one.stdout)

    def test_a_count_that_does_not_divide_is_refused(self):
        done = run(BINARY, *STORY, "--ranks", "3")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "attacca: 3 ranks cannot divide its 2 heads of keys and values; this model runs on 1 or "
                                      "2 ranks\n")

    def test_two_ranks_with_the_resident_scheduler_tell_the_story_of_one(self):
        one = run(BINARY, *STORY)
        for form in "while-node", "self-relaunch":
            two = run(BINARY, *STORY, "--ranks", "2", "--scheduler", "resident", "--resident-loop", form)
            self.assertEqual((two.returncode, two.stderr, two.stdout), (0, one.stderr, one.stdout))


def launched(ranks, *arguments):
    """The status, output and errors of each process that was started as torchrun does."""
    processes = launch.start(ranks, [BINARY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    outputs = [process.communicate(timeout=60) for process in processes]
    return [(process.returncode, *output) for process, output in zip(processes, outputs)]


class Launched(unittest.TestCase):
    def test_two_processes_tell_the_story_of_one(self):
        first, second = launched(2, *STORY, "--ranks", "2")
        self.assertEqual((first[0], second[0]), (0, 0), first[2] + second[2])
        self.assertEqual((first[1], second[1]), (run(BINARY, *STORY).stdout, ""))

    def test_two_processes_with_the_resident_scheduler_tell_the_story_of_one(self):
        first, second = launched(2, *STORY, "--ranks", "2", "--scheduler", "resident")
        self.assertEqual((first[0], second[0]), (0, 0), first[2] + second[2])
        self.assertEqual((first[1], second[1]), (run(BINARY, *STORY).stdout, ""))

    def test_a_process_that_stands_still_or_ends_while_the_loop_runs_is_named_within_the_deadline(self):
        cases = [(signal.SIGSTOP, "waited 5 s for rank 0 and gave up"),
                 (signal.SIGKILL, "rank 1 (has ended without leaving|left and did not come)")]
        for number, (sign, expected) in enumerate(cases):
            processes = launch.start(2, [*TALES, "--scheduler", "resident", "--rank-deadline", "5"], **PIPES)
            stopped, other = processes[number], processes[1 - number]
            processes[0].stdout.read(SOME)
            stopped.send_signal(sign)
            try:
                self.assertRegex(other.communicate(timeout=60)[1], expected)
            finally:
                stopped.kill()
                stopped.communicate()

    def test_another_count_than_there_are_processes_is_refused_by_all(self):
        for status, _, errors in launched(2, *STORY, "--ranks", "4"):
            self.assertEqual(status, 2)
            self.assertIn("--ranks 4 in a program of 2 processes; give --ranks 2", errors)

    def test_another_count_is_refused_before_the_others_come(self):
        alone = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(launch.free_port())}
        done = subprocess.run([BINARY, *STORY, "--ranks", "2"], env=os.environ | alone, capture_output=True, text=True,
                              timeout=20)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("--ranks 2 in a program of 3 processes; give --ranks 3", done.stderr)

    def test_a_killed_process_is_named_at_once(self):
        first, second = launch.start(2, TALES, **PIPES)
        first.stdout.read(SOME)
        second.kill()
        second.communicate()
        self.assertRegex(first.communicate(timeout=60)[1], "attacca: .*rank 1 left and did not ")


@unittest.skipUnless(MPIRUN, "no mpirun")
class Processes(unittest.TestCase):
    def test_two_ranks_tell_the_story_of_one(self):
        one, two = run(BINARY, *STORY), mpirun(2, *STORY, "--ranks", "2")
        self.assertEqual(two.returncode, 0, two.stderr)
        self.assertEqual(two.stdout, one.stdout)

    def test_another_count_than_there_are_processes_is_refused(self):
        done = mpirun(2, *STORY, "--ranks", "4")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--ranks 4 in a program of 2 processes; give --ranks 2", done.stderr)

    def test_a_killed_rank_is_named_within_the_deadline(self):
        command = [*TALES, "--rank-deadline", "5"]
        with tempfile.TemporaryDirectory() as folder:
            number = pathlib.Path(folder) / "process"
            telling = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(number)]
            job = subprocess.Popen([MPIRUN, "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-n", "1", *command,
                                    ":", "-n", "1", *telling, *command], **PIPES)
            job.stdout.read(SOME)
            os.kill(int(number.read_text()), signal.SIGKILL)
        self.assertRegex(job.communicate(timeout=60)[1], "attacca: .*rank 1 did not (come to|finish) .* within 5 s")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
