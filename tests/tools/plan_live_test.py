#!/usr/bin/env python3
"""Tests of `attacca serve --plan-live`: plan_live_test.py <binary>."""
import concurrent.futures
import signal
import subprocess
import sys
import threading
import time
import unittest

from serving import BINARY, PATIENCE_S, TEXT, Server

# Sizes that fit nothing, so that a plan pays: nearly every step has no graph.
POOR = ("--slots", "8", "--context", "128", "--step-tokens", "64", "--decode-sizes", "1", "--mixed-sizes", "1,2,3,4,5")


# In the resident loop every step needs a graph. These are too large; whether a plan pays is up to the machine.
LARGE = ("--slots", "8", "--context", "128", "--step-tokens", "64", "--decode-sizes", "6,7,8", "--mixed-sizes", "60,62,64",
         "--scheduler", "resident")


def text(server, number):
    fields = {"prompt": f"Once there were {number} foxes and a lantern", "seed": number, "max_tokens": 48}
    return server.answer(TEXT, **fields)["choices"][0]["text"]


class PlanLive(unittest.TestCase):
    def test_it_captures_what_the_traffic_needs_and_loses_no_request(self):
        log = self.log_of(POOR, "than with the sizes before")
        self.assertRegex(log, r"plan-live: the last \d+ steps would have taken [\d.]+ % less time with decode ")
        self.assertRegex(log, r"plan-live: \d+ graphs were built in \d+ ms beside the requests")
        self.assertRegex(log, r"plan-live: the last \d+ steps took -?[\d.]+ % less time than with the sizes before ")

    def test_it_watches_the_resident_loop_too(self):
        self.assertNotIn("the sizes stay", self.log_of(LARGE))

    def log_of(self, options, last=""):
        """What a server that plans says, whose texts are those of one that does not. It gets requests until it says `last`."""
        with Server(*options) as server:
            alone = [text(server, number) for number in range(24)]
        with Server(*options, "--plan-live", "--plan-window", "60", "--log-format", "text") as server, \
                concurrent.futures.ThreadPoolExecutor(8) as pool:
            lines = []
            reader = threading.Thread(target=lambda: [lines.append(line) for line in server.process.stderr], daemon=True)
            reader.start()
            deadline = time.monotonic() + PATIENCE_S
            together = list(pool.map(lambda number: text(server, number % 24), range(48)))
            while last not in "".join(lines) and time.monotonic() < deadline:
                together += pool.map(lambda number: text(server, number), range(24))
            server.process.send_signal(signal.SIGTERM)
            reader.join(PATIENCE_S)
        self.assertEqual(alone * (len(together) // 24), together)
        return "".join(lines)

    def test_it_is_refused_without_graphs_and_with_ranks(self):
        for options, word in ((["--graphs", "off"], "use --graphs full"), (["--ranks", "2"], "is for one rank")):
            done = subprocess.run([BINARY, "serve", "--port", "0", "--plan-live", *options], capture_output=True,
                                  text=True, timeout=PATIENCE_S)
            self.assertEqual((2, ""), (done.returncode, done.stdout), done.stderr)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
