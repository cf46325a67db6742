#!/usr/bin/env python3
"""Tests of `attacca plan`, on step logs that `attacca run` writes here: plan_test.py <binary>."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BINARY = sys.argv[1]
SLOTS, STEP_TOKENS = 12, 256
NOUNS = "fox lantern boat stone cloud apple river mouse garden letter window clock".split()


def attacca(*arguments, given=""):
    return subprocess.run([BINARY, *arguments], input=given, capture_output=True, text=True, timeout=120)


def stories():
    """Answers that end when they end: the batch is full, then drains."""
    return [f"Tell me a story about a {noun}." for noun in NOUNS], ["-n", "250"]


def long_prompts():
    """Prompts of many lengths with short answers: most steps are mixed."""
    text = "Once upon a time " + "there was a river and a stone "
    return [text * (1 + number * 7 % 11) for number in range(30)], ["--plain", "--ignore-end", "-n", "4"]


def samples():
    """The same few questions several times, with answers of all lengths."""
    return ["Who are you?", "What is 3 plus 4?", "Tell me a riddle."], ["--samples", "9", "-n", "60"]


class Log:
    """A step log of a load, made once."""
    made = {}

    @classmethod
    def of(cls, load):
        if load not in cls.made:
            folder = cls.folder = getattr(cls, "folder", None) or tempfile.TemporaryDirectory()
            prompts, options = load()
            file, log = (pathlib.Path(folder.name, load.__name__ + end) for end in (".txt", ".jsonl"))
            file.write_text("\n".join(prompts) + "\n")
            done = attacca("run", "-f", str(file), "--slots", str(SLOTS), "--step-tokens", str(STEP_TOKENS),
                           "--step-log", str(log), *options)
            assert done.returncode == 0, done.stderr
            cls.made[load] = str(log)
        return cls.made[load]

    @classmethod
    def without_times(cls, load):
        """Costs are tokens then, and the same in every run."""
        log = pathlib.Path(cls.of(load))
        bare = log.with_suffix(".bare")
        bare.write_text(re.sub(r',"microseconds":[0-9.]+', "", log.read_text()))
        return str(bare)


LOADS = (stories, long_prompts, samples)


def powers_of_two(most):
    return [1 << bit for bit in range(most.bit_length()) if 1 << bit < most] + [most]


def joined(sizes):
    return ",".join(map(str, sizes))


class Plan(unittest.TestCase):
    LIMITS = ("--slots", str(SLOTS), "--step-tokens", str(STEP_TOKENS))

    def plan(self, *arguments):
        done = attacca("plan", *arguments, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_real_logs_are_read_to_the_last_line(self):
        for load in LOADS:
            log = Log.of(load)
            found = self.plan(log, *self.LIMITS)
            lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
            self.assertEqual(len(lines), found["decode_steps"] + found["mixed_steps"])
            self.assertEqual([], found["skipped"])
            self.assertEqual("us", found["unit"])
            self.assertEqual(1, found["planned"]["all"]["hits"])

    def test_it_beats_powers_of_two_with_as_many_graphs(self):
        for load in LOADS:
            found = self.plan(Log.without_times(load), *self.LIMITS, "--padding-cost", "1", "--miss-cost", "3.5",
                              "--decode-sizes", joined(powers_of_two(SLOTS)), "--mixed-sizes", joined(powers_of_two(STEP_TOKENS)))
            self.beats(found, load.__name__)

    def test_it_beats_the_default_list_of_vllm_with_as_many_graphs(self):
        for load in LOADS:
            found = self.plan(Log.without_times(load), *self.LIMITS, "--format", "vllm")
            self.assertEqual([1, 2, 4, 8, 16, 24], found["today"]["mixed_sizes"])
            self.beats(found, load.__name__)

    def beats(self, found, load):
        today, planned = found["today"], found["planned"]
        self.assertLessEqual(planned["memory_mib"], today["memory_mib"], load)
        self.assertLess(planned["all"]["cost_per_step"], today["all"]["cost_per_step"], load)
        self.assertGreaterEqual(planned["all"]["hits"], today["all"]["hits"], load)

    def test_the_engine_takes_its_settings_and_every_step_then_has_a_graph(self):
        with tempfile.TemporaryDirectory() as folder:
            settings, chart, log = (pathlib.Path(folder, name) for name in ("sizes.yaml", "sizes.svg", "steps.jsonl"))
            done = attacca("plan", Log.of(stories), *self.LIMITS, "--cover", "--count", "6", "-o", str(settings),
                           "--svg", str(chart))
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertNotIn("warning", done.stdout)
            self.assertNotIn("decode-sizes:", done.stdout)
            done = attacca("run", "--plain", "Tell me about a fox.", "-n", "4", "--config", str(settings), "--slots", str(SLOTS),
                           "--step-tokens", str(STEP_TOKENS), "--step-log", str(log), "--stats")
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertNotIn("no graph", done.stderr)
            self.assertTrue(all(json.loads(line)["hit"] for line in log.read_text().splitlines()))
            root = xml.etree.ElementTree.parse(chart).getroot()
        texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertEqual(2, sum("steps: planned sizes" in text for text in texts))
        self.assertTrue(all(float(line.get(name)) >= 0 for line in root.iter("{http://www.w3.org/2000/svg}line")
                            for name in ("x1", "x2", "y1", "y2")))

    def test_logs_may_be_mixed_broken_and_on_standard_input(self):
        text = ('{"batch":"decode","tokens":3}\nhello\n{"batch":"dec\n'
                "{'iter': 2, 'inflightBatchingStats': {'numCtxTokens': 9, 'numGenRequests': 1}}\n"
                "| 6 | 8 | 2 | FULL | 31 |\n")
        done = attacca("plan", "-", given=text)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("32 decode steps of 3 to 6 tokens, 1 mixed step of 10 tokens", done.stdout)
        self.assertIn("text that is no step: 1 (first: -:2)", done.stdout)
        self.assertIn("an object that does not end: 1 (first: -:3)", done.stdout)
        self.assertIn("decode-sizes: [3, 6]\nmixed-sizes: [10]\n", done.stdout)
        self.assertIn("warning   the scheduler can form mixed steps of 11 to 512 tokens", done.stdout)

    def test_settings_are_written_for_other_engines(self):
        steps = ("plan", "--decode-steps", "1:90,8:30", "--mixed-steps", "64:5", "--format")
        for engine, words in (("tensorrt-llm", "batch_sizes: [1, 8]"), ("sglang", "--cuda-graph-bs 1 8\n"),
                              ("vllm", '{"cudagraph_capture_sizes": [1, 8, 64]}')):
            self.assertIn(words, attacca(*steps, engine).stdout, engine)

    def test_what_cannot_be_planned_is_refused_with_the_remedy(self):
        steps = ("--decode-steps", "1:9,8:3")
        for status, arguments, words in (
                (2, (), "name a step log"),
                (2, ("--decode-steps", "1:x"), "'1:x' is no TOKENS:COUNT"),
                (2, (*steps, "--decode-sizes", "4,2"), "--decode-sizes has 2 after 4"),
                (2, (*steps, "--format", "vllm", "--decode-sizes", "4"), "give it as --mixed-sizes"),
                (2, (*steps, "--graph-memory", "1,2,3"), "has 3 values"),
                (2, (*steps, "--count", "0"), "'0' is not a whole number from 1 to 256"),
                (1, (*steps, "--slots", "4"), "--slots is 4, and a decode step of 8 tokens was read"),
                (2, (*steps, "--slots", "8", "--step-tokens", "6"), "--step-tokens 6 is less than --slots 8, and a step"),
                (1, (*steps, "--mixed-steps", "64:1", "--count", "1"), "the budget is 1 graphs"),
                (1, (*steps, "--memory", "0.01"), "0.01 MiB"),
                (1, (*steps, "-o", "/no/such/folder/x"), "/no/such/folder/x"),
                (1, ("no such log",), "no such log"),
                (1, (BINARY,), "no step was found")):
            done = attacca("plan", *arguments)
            self.assertEqual(status, done.returncode, (arguments, done.stdout, done.stderr))
            self.assertIn(words, done.stderr)
            self.assertEqual("", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
