#!/usr/bin/env python3
"""Faults of ranks that are processes: what the others are told, and that they are told it in time.

Usage: process_faults_test.py <comm_process_fault> [mpirun]. Without mpirun the processes are joined by TCP. By default
mpirun ends a program when one of its processes dies, before the others can say anything. With --enable-recovery it lets
them go on, so here it is attacca that must notice.
"""
import re
import subprocess
import sys
import unittest

import launch

PROGRAM, MPIRUN = (sys.argv[1:] + [None])[:2]
RANKS = 3
DEADLINE = 1.5  # seconds
LONGEST = 20  # with the start of the processes and their end


def told(how):
    """What each rank was told, by rank, and what went to stderr."""
    if not MPIRUN:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        texts = [process.communicate(timeout=LONGEST) for process in launch.start(RANKS, [PROGRAM, how], **pipes)]
        return lines_of("".join(out for out, _ in texts)), "".join(err for _, err in texts)
    command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-n", str(RANKS), PROGRAM, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    return lines_of(done.stdout), done.stderr


def lines_of(output):
    """They are told within the deadline, and half of it more; the rest, as long again, is for a busy machine."""
    lines = re.findall(r"^rank (\d) after ([\d.]+) s: (.*)$", output, re.MULTILINE)
    late = [line for line in lines if float(line[1]) > 3 * DEADLINE + 5]
    if late:
        raise AssertionError(f"told too late: {late}")
    return {int(rank): text for rank, _, text in lines}


def missing(verb, what):
    """MPI does not say that a process has ended, so it is noticed at the deadline; a connection does, at once."""
    return f"^rank 1 did not {verb} {what} within 1.5 s$" if MPIRUN else f"^rank 1 left and did not {verb} {what}$"


class Faults(unittest.TestCase):
    def check_each(self, how, ranks, expected):
        texts, stderr = told(how)
        self.assertEqual(set(texts), set(ranks), stderr)
        for text in texts.values():
            self.assertRegex(text, expected)
        return texts

    def check(self, how, ranks, expected):
        texts = self.check_each(how, ranks, expected)
        self.assertEqual(len(set(texts.values())), 1, "all ranks are told the same")

    def test_a_rank_killed_before_a_collective_is_named(self):
        self.check("killed-before", [0, 2], missing("come to", "all-reduce 'gradients' of 1000 f32, sum"))

    def test_a_rank_killed_before_a_direct_collective_is_named(self):
        self.check("killed-before-direct", [0, 2], missing("come to", "all-reduce 'gradients' of 1000 f32, sum"))

    # Of two ranks that notice it at the same time, one may have come further.
    def test_a_rank_killed_during_a_collective_is_named(self):
        self.check_each("killed-during", [0, 2], missing("(come to|finish)", "all-reduce 'gradients' of 1000000 f32, sum"))

    def test_a_rank_killed_after_the_last_collective_is_named_when_the_others_leave(self):
        texts, stderr = told("killed-after")
        self.assertEqual(texts, {0: "was told nothing", 2: "was told nothing"})
        self.assertEqual(2 if not MPIRUN else stderr.count(": rank 1 did not leave within 1.5 s"), 2, stderr)

    def test_a_stalled_rank_is_named_and_hears_it_later(self):
        """By then the others' data may have come, and then it hears it when it leaves."""
        texts, stderr = told("stalled")
        expected = "rank 1 did not come to all-reduce 'gradients' of 1000 f32, sum within 1.5 s"
        if texts[1] == "was told nothing":
            self.assertIn(f"rank 1: {expected}", stderr)
            texts.pop(1)
        self.assertEqual(set(texts.values()), {expected})

    def test_ranks_that_disagree_are_all_told_the_same(self):
        self.check("mismatched", [0, 1, 2], "ranks 0 and 2 called all-reduce 'gradients' of 1000 f32, sum, rank 1 called "
                                            "all-reduce 'gradients' of 10 f32, sum")

    def test_a_send_and_a_receive_of_other_sizes_are_named_to_all(self):
        self.check("mismatched-send", [0, 1, 2], "^rank 0 sends 3 i32 to rank 1, which expects 2 i32")

    # Where a device fails on several ranks at once, each may be the first to say so, with its own words.
    @unittest.skipIf(MPIRUN, "MPI does not say that a process has ended")
    def test_a_rank_whose_end_takes_the_device_along_is_named_with_the_device_s_error(self):
        self.check_each("device-lost", [0, 2],
                        "^rank 1 has ended without leaving; then on rank [02]: cudaErrorIllegalAddress$")

    @unittest.skipIf(MPIRUN, "MPI does not say that a process has ended")
    def test_a_rank_that_ends_is_named_where_a_kernel_waited_for_it(self):
        self.check_each("killed-in-step", [0, 2],
                        "^rank 1 has ended without leaving; then on rank [02]: .*'lock_step'")

    def test_a_rank_that_leaves_too_early_is_named(self):
        texts, stderr = told("left")
        self.assertEqual(texts.pop(1), "was told nothing", stderr)
        self.assertEqual(set(texts.values()), {"rank 1 left and did not come to all-reduce 'gradients' of 1000 f32, sum"})

    def test_the_blame_goes_to_the_end_of_a_chain_of_waits(self):
        self.check("chain", [0, 1, 2], "^rank 1 did not come to barrier within 1.5 s$")

    @unittest.skipIf(MPIRUN, "on a busy machine MPI yields for so long that the rank says it too late")
    def test_a_rank_that_said_it_waits_and_then_gets_no_processor_is_not_blamed(self):
        self.check("chain-stopped", [0, 1, 2], "^rank 1 did not come to barrier within 1.5 s$")

    def test_a_rank_that_never_starts_is_noticed(self):
        self.check("lost-bootstrap", [0, 2], "^MPI has not started within 1.5 s, so a process of this program did not come" if MPIRUN
                   else r"^rank 1 did not come to 127\.0\.0\.1:\d+ within 1.5 s$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
