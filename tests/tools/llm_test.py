#!/usr/bin/env python3
"""Tests of `attacca run`, `tokenize`, `inspect`, `score` and `convert` with the embedded model: llm_test.py <binary>."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = sys.argv[1]
STORIES = pathlib.Path("../shared/fixtures/stories260k")


def attacca(*arguments, given=""):
    return subprocess.run([BINARY, *arguments], input=given, capture_output=True, text=True, timeout=120)


class Run(unittest.TestCase):
    def test_a_story_is_about_what_was_asked_for_and_ends(self):
        done = attacca("run", "Tell me a story about a fox and a lantern.", "--temperature", "0", "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        reply = json.loads(done.stdout)
        self.assertEqual("stop", reply["finish"])
        self.assertIn("fox", reply["text"])
        self.assertIn("lantern", reply["text"])
        self.assertTrue(reply["text"].rstrip().endswith((".", '"')), reply["text"])

    def test_the_same_seed_gives_the_same_text_and_another_seed_another(self):
        texts = [attacca("run", "--plain", "Once upon a time", "-n", "40", "--seed", seed).stdout for seed in "112"]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertTrue(texts[0].startswith("Once upon a time"))

    def test_a_prompt_comes_from_standard_input_too(self):
        spoken = attacca("run", "Who are you?", "--temperature", "0")
        piped = attacca("run", "--temperature", "0", given="Who are you?")
        self.assertEqual(0, piped.returncode, piped.stderr)
        self.assertEqual(spoken.stdout, piped.stdout)

    def test_prompts_of_a_file_are_answered_in_order_as_when_alone(self):
        questions = ["What is the opposite of hot?", "Who are you?", "What is 3 plus 4?"]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(questions))
            file.flush()
            done = attacca("run", "--prompts", file.name, "--temperature", "0", "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(questions, [reply["prompt"] for reply in replies])
        for question, reply in zip(questions, replies):
            alone = attacca("run", question, "--temperature", "0").stdout
            self.assertEqual(alone.strip(), reply["text"].strip())

    def test_text_ends_before_a_stop_string(self):
        done = attacca("run", "--plain", "Once upon a time", "--temperature", "0", "--stop", "lived", "--json")
        reply = json.loads(done.stdout)
        self.assertEqual("stop", reply["finish"])
        self.assertNotIn("lived", reply["text"])

    def test_user_text_cannot_forge_special_tokens(self):
        done = attacca("run", "<|im_end|>", "-n", "1", "--json")
        self.assertGreater(json.loads(done.stdout)["prompt_tokens"],
                           json.loads(attacca("run", "x", "-n", "1", "--json").stdout)["prompt_tokens"] + 2)

    def test_what_cannot_be_is_refused_in_one_line(self):
        for arguments, words in ((["run", "nothing.gguf", "hello"], "nothing.gguf"),
                                 (["run", "hello", "--temperature", "-1"], "temperature"),
                                 (["run", "hello", "--context", "99999"], "99999"),
                                 (["run", "a", "b", "c"], "MODEL"),
                                 (["inspect", "nothing"], "nothing")):
            done = attacca(*arguments)
            self.assertEqual(1, done.returncode, arguments)
            self.assertIn(words, done.stderr)
            self.assertEqual(1, len(done.stderr.strip().splitlines()), done.stderr)


class OtherCommands(unittest.TestCase):
    def test_tokens_become_the_text_again(self):
        text = "Once upon a time, a fox said: \"42!\""
        ids = json.loads(attacca("tokenize", "small", text, "--json").stdout)["ids"]
        self.assertEqual(text, attacca("tokenize", "small", " ".join(map(str, ids)), "--decode").stdout.rstrip("\n"))

    def test_a_scored_text_has_the_perplexity_of_its_tokens(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("Once upon a time, a fox lived in the forest.")
            file.flush()
            done = attacca("score", "small", "--text", file.name)
        self.assertEqual(0, done.returncode, done.stderr)
        score = json.loads(done.stdout)
        values = [entry["logprob"] for entry in score["logprobs"]]
        self.assertEqual(score["scored"], len(values))
        self.assertAlmostEqual(math.exp(-sum(values) / len(values)), score["perplexity"], places=3)
        self.assertLess(score["perplexity"], 20)

    def test_inspect_tells_what_the_model_is(self):
        done = attacca("inspect", "small", "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("llama", done.stdout)

    @unittest.skipUnless(STORIES.is_dir(), "../shared/fixtures/stories260k is not here")
    def test_the_stories_model_writes_what_another_implementation_recorded(self):
        with tempfile.TemporaryDirectory() as folder:
            model = str(pathlib.Path(folder) / "stories.gguf")
            done = attacca("convert", str(STORIES / "stories260K.bin"), "--tokenizer", str(STORIES / "tok512.bin"),
                           "-o", model)
            self.assertEqual(0, done.returncode, done.stderr)
            done = attacca("run", model, "Once upon a time", "--temperature", "0", "-n", "128", "--ignore-end")
        recorded = (STORIES / "greedy-once-upon-a-time-128.txt").read_text().strip()
        self.assertTrue(done.stdout.strip().startswith(recorded) or recorded.startswith(done.stdout.strip()),
                        done.stdout + "\n--\n" + recorded)
        self.assertGreater(len(done.stdout), 300)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
