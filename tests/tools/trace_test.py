#!/usr/bin/env python3
"""Tests of --trace of `attacca run` and `serve`, and of `attacca trace`, with the embedded model: trace_test.py <binary>."""
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from progress import without_progress

BINARY = sys.argv[1]


def attacca(*arguments, given=""):
    done = subprocess.run([BINARY, *arguments], input=given, capture_output=True, text=True, timeout=120)
    done.stderr = without_progress(done.stderr)
    return done


class TraceTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def run_model(self, *options):
        """The slices of a run by the name of their track, and the lines of its step log."""
        began = time.monotonic()
        trace, log = self.folder / "run.json", self.folder / "steps.jsonl"
        done = attacca("run", "--plain", "Once upon a time", "-n", "12", "--ignore-end", "--temperature", "0", "--device", "host",
                       "--trace", str(trace), "--step-log", str(log), *options)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.seconds = time.monotonic() - began
        events = json.loads(trace.read_text())["traceEvents"]
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        tracks = {name: [] for name in names.values()}
        for event in events:
            if event["ph"] == "X" and "part" not in event["args"]:
                tracks[names[event["tid"]]].append(event)
        return trace, tracks, [json.loads(line) for line in log.read_text().splitlines()]

    def test_every_step_is_a_slice_with_its_nodes_below(self):
        _, tracks, log = self.run_model()
        steps = tracks.pop("steps")
        self.assertEqual([(line["tokens"], line["size"], line["mode"]) for line in log],
                         [(step["args"]["tokens"], step["args"]["size"], step["args"]["mode"]) for step in steps])
        samples = sorted((node for nodes in tracks.values() for node in nodes if node["name"] == "sample"),
                         key=lambda node: node["ts"])
        self.assertEqual(len(steps), len(samples))
        for step, sample in zip(steps, samples):  # the host learns of an end when it has come
            self.assertLessEqual(sample["ts"] + sample["dur"], step["ts"] + step["dur"])

    def test_steps_take_no_longer_than_the_run(self):
        for scheduler in ("host", "resident"):
            with self.subTest(scheduler):
                _, tracks, log = self.run_model("--scheduler", scheduler)
                self.assertLess(sum(line["microseconds"] for line in log), self.seconds * 1e6)
                self.assertLess(sum(step["dur"] for step in tracks["steps"]), self.seconds * 1e6)

    def test_the_resident_loop_shows_every_iteration(self):
        _, tracks, log = self.run_model("--scheduler", "resident", "--resident-loop", "while-node")
        nodes = [node for name, nodes in tracks.items() if name != "steps" for node in nodes]
        iterations = [node["args"].get("iteration") for node in nodes if node["name"] == "sample"]
        self.assertEqual(len(log), len(iterations))
        self.assertNotIn(None, iterations)

    def test_the_resident_loop_records_its_passes_with_plan_step_and_commit(self):
        for form in ("while-node", "self-relaunch"):
            for level in ("graph", "node"):
                with self.subTest(f"{form}, {level}"):
                    _, tracks, log = self.run_model("--scheduler", "resident", "--resident-loop", form, "--trace-level", level)
                    slices = [piece for name, pieces in tracks.items() if name.startswith("passes") for piece in pieces]
                    count = {name: sum(piece["name"] == name for piece in slices) for name in ("turn", "plan", "commit")}
                    steps = [piece for piece in slices if " step of " in piece["name"]]
                    self.assertEqual([f"{line['batch']} step of {line['size']}" for line in log],
                                     [re.sub(".*, ", "", step["name"]) for step in steps])
                    self.assertGreaterEqual(count["turn"], len(log))
                    self.assertEqual(count["commit"], count["plan"])
                    launches = sum(piece["name"] == "resident scheduler" and piece["args"].get("iteration") == 1 for piece in slices)
                    self.assertGreater(launches, 0)
                    self.assertEqual(count["plan"] - count["turn"], launches, "a launch plans before its first turn")
                    outside = sorted(piece["name"] for piece in slices if "iteration" not in piece["args"])
                    first = ["commit"] * launches + ["plan"] * launches  # before a WHILE; else in a pass of their own
                    self.assertEqual(outside, first if form == "while-node" else [])
                    if form == "self-relaunch":
                        for step in steps:
                            self.assertRegex(step["args"]["launched by"], "^'next arm' of 'resident scheduler.*', tail$")

    def test_a_run_that_a_signal_ends_leaves_the_trace_of_what_ran(self):
        prompts = self.folder / "prompts"
        prompts.write_text("Once upon a time\n" * 400)
        for number, given in (signal.SIGINT, ()), (signal.SIGTERM, ("--json",)):
            trace, log = self.folder / "cut.json", self.folder / "cut.jsonl"
            with subprocess.Popen([BINARY, "run", "--plain", "-f", str(prompts), *given, "-n", "200", "--ignore-end", "--device", "host-serial",
                                   "--trace", str(trace), "--step-log", str(log)], stdout=subprocess.PIPE) as running:
                running.stdout.read(len("Once upon a time, "))
                running.send_signal(number)
                running.stdout.read()
                self.assertEqual(-number, running.wait(60))
            steps = [event for event in json.loads(trace.read_text())["traceEvents"] if event["name"].endswith(" step")]
            self.assertEqual(len(log.read_text().splitlines()), len(steps))
            self.assertLess(0, len(steps))

    def test_a_trace_is_summed_up_and_compared(self):
        trace, _, _ = self.run_model()
        done = attacca("trace", str(trace))
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for words in ("host: thread 1", "largest gaps", "layer # attention", "decode step"):
            self.assertIn(words, done.stdout)
        self.assertIn("layer 0 attention", attacca("trace", "--each", "--names", "1000", str(trace)).stdout)
        self.assertEqual(done.stdout, attacca("trace", "-", given=trace.read_text()).stdout)
        same = attacca("trace", "--compare", str(trace), str(trace)).stdout
        self.assertIn("+0.0 %", same)
        self.assertNotIn("slower", same)

    def test_a_run_is_written_in_the_format_of_its_ending_and_converted(self):
        trace, _, _ = self.run_model()
        for ending, start in (("pftrace", b"\x0a"), ("html", b"<!DOCTYPE html>")):
            with self.subTest(ending):
                direct, converted = self.folder / f"direct.{ending}", self.folder / f"converted.{ending}"
                done = attacca("run", "--plain", "Once", "-n", "3", "--device", "host", "--trace", str(direct))
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.assertTrue(direct.read_bytes().startswith(start))
                done = attacca("trace", str(trace), "-o", str(converted))
                self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
                self.assertTrue(converted.read_bytes().startswith(start))

    def test_a_command_is_recorded(self):
        trace = self.folder / "recorded.json"
        done = attacca("trace", "-o", str(trace), "--", "run", "--plain", "Once", "-n", "3", "--device", "host")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertTrue(done.stdout)
        self.assertIn("sample", trace.read_text())
        done = attacca("trace", "-o", str(trace), "--", "run", "--no-such-option")
        self.assertEqual(2, done.returncode)
        self.assertIn("--no-such-option", done.stderr)

    def test_the_level_of_graphs_has_a_slice_for_each_launch(self):
        _, tracks, log = self.run_model("--trace-level", "graph")
        launches = [node for name, nodes in tracks.items() if name != "steps" for node in nodes if "step of" in node["name"]]
        self.assertEqual(len(log), len(launches))
        self.assertFalse([node for node in launches if "layer" in node["name"]])

    def test_wrong_files_and_usage_are_refused_with_the_place(self):
        bad = self.folder / "bad.json"
        bad.write_text('[{"ph":"X","name":"a","ts":"now"}]')
        for arguments, status, word in ((("trace",), 2, "give one"), (("trace", "a", "b"), 2, "--compare"),
                                        (("trace", "--compare", "a"), 2, "takes two"),
                                        (("trace", "--compare", "a", "b", "-o", "c"), 2, "--output writes one"),
                                        (("run", "x", "--trace-level", "kernel"), 2, "kernel"),
                                        (("trace", str(self.folder / "none")), 1, "cannot read it"),
                                        (("trace", str(bad)), 1, "bad.json: event 1: ts is not a number"),
                                        (("run", "x", "--trace", "x.foo"), 2, "--trace x.foo: .foo names no format"),
                                        (("run", "x", "--trace", "/nowhere/x.json"), 1, "/nowhere/x.json")):
            with self.subTest(arguments):
                done = attacca(*arguments)
                self.assertEqual(status, done.returncode)
                self.assertTrue(done.stderr.startswith("attacca: "), done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
