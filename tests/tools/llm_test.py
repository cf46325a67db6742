#!/usr/bin/env python3
"""Tests of `attacca run`, `graph step`, `tokenize`, `inspect`, `score` and `convert`: llm_test.py <binary>."""
import json
import math
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BINARY = sys.argv[1]
STORIES = pathlib.Path("../shared/fixtures/stories260k")


def attacca(*arguments, given=""):
    return subprocess.run([BINARY, *arguments], input=given, capture_output=True, text=True, timeout=120)


class Terminal:
    """A command on its own terminal. Its output is read up to a text that must come before the deadline."""
    SECONDS = 120

    def __init__(self, *arguments):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            try:
                os.execv(BINARY, [BINARY, *arguments])
            finally:
                os._exit(127)
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.file)

    def read_more(self, deadline):
        """Reads more output. False: the command has closed its terminal."""
        if not select.select([self.file], [], [], max(0, deadline - time.monotonic()))[0]:
            raise TimeoutError(f"nothing more after {self.pending!r}")
        try:
            some = os.read(self.file, 4096)
        except OSError:  # on Linux: the other end is closed
            some = b""
        self.pending += some
        return bool(some)

    def until(self, text):
        """The output up to and with `text`."""
        deadline = time.monotonic() + self.SECONDS
        while (found := self.pending.find(text.encode())) < 0:
            if not self.read_more(deadline):
                raise EOFError(f"ended with {self.pending!r}, without {text!r}")
        end = found + len(text.encode())
        taken, self.pending = self.pending[:end], self.pending[end:]
        return taken.decode().replace("\r\n", "\n")

    def type(self, text):
        os.write(self.file, text.encode())

    def end(self):
        """The rest of the output, and the exit code."""
        deadline = time.monotonic() + self.SECONDS
        while self.read_more(deadline):
            pass
        pid, self.pid = self.pid, None
        return self.pending.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Conversation(unittest.TestCase):
    def test_turns_are_answered_until_the_end_of_input(self):
        with Terminal("run", "--temperature", "0") as terminal:
            greeting = terminal.until("\n> ")
            self.assertIn("Ctrl-D", greeting)
            self.assertNotIn("MiB", greeting)  # that is for --stats and -v
            terminal.type("Who are you?\n")
            self.assertEqual("Who are you?\n", terminal.until("\n"))  # the terminal's echo
            self.assertIn("attacca", terminal.until("\n> "))
            terminal.type("What is 3 plus 4?\n")
            self.assertIn("7", terminal.until("\n> "))
            terminal.type("\x04")  # Ctrl-D
            self.assertEqual(("\n", 0), terminal.end())

    def test_the_first_turn_is_answered_as_the_same_prompt_alone_and_the_second_knows_of_the_first(self):
        question = "Tell me a story about a fox and a lantern."
        alone = attacca("run", question, "--temperature", "0").stdout
        with Terminal("run", "--temperature", "0", "--stats") as terminal:
            for turn in range(2):
                terminal.until("\n> ")
                terminal.type(question + "\n")
                reply = terminal.until("\nprompt ")
                if turn == 0:
                    self.assertEqual(question + "\n" + alone, reply.removesuffix("prompt "))
                tokens = terminal.until(" tokens, ")
                if turn == 0:
                    first = int(tokens.split()[0])
            self.assertGreater(int(tokens.split()[0]), 2 * first)
            self.assertGreaterEqual(int(terminal.until(" of them cached").split()[0]), first // 16 * 16)
            terminal.until("\n> ")
            terminal.type("/quit\n")
            self.assertEqual(0, terminal.end()[1])

    def test_an_answer_streams_and_ctrl_c_ends_it_but_not_the_conversation(self):
        options = ["--device", "host-serial", "--temperature", "0", "--ignore-end", "-n", "1000"]  # seconds of text
        whole = attacca("run", "Who are you?", *options).stdout
        with Terminal("run", *options) as terminal:
            terminal.until("\n> ")
            terminal.type("Who are you?\n")
            terminal.until("I am")
            terminal.type("\x03")  # Ctrl-C
            self.assertLess(len(terminal.until("\n> ")), len(whole))
            terminal.type("/reset\n")
            terminal.until("> ")
            terminal.type("\n")  # an empty line gets no answer
            self.assertEqual("\n> ", terminal.until("> "))
            terminal.type("\x04")
            self.assertEqual(0, terminal.end()[1])

    def test_ctrl_c_between_two_answers_ends_the_conversation_and_its_trace_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "run.json"
            with Terminal("run", "--device", "host-serial", "--trace", str(trace), "-n", "4") as terminal:
                terminal.until("\n> ")
                terminal.type("Who are you?\n")
                terminal.until("\n> ")
                terminal.type("\x03")
                self.assertEqual(-signal.SIGINT, terminal.end()[1])
            self.assertIn("decode step", trace.read_text())

    def test_a_full_conversation_says_where_an_answer_was_cut_and_how_to_go_on(self):
        with Terminal("run", "--device", "host-serial", "--temperature", "0", "--context", "64") as terminal:
            terminal.until("\n> ")
            terminal.type("Tell me a story about a fox.\n")
            terminal.until("the answer ends here")
            terminal.until("> ")
            terminal.type("hi\n")
            terminal.until("/reset forgets it")
            terminal.until("> ")
            terminal.type("/reset\n")
            terminal.until("> ")
            terminal.type("hi\n")
            self.assertNotIn("shorten it", terminal.until("\n> "))
            terminal.type("\x04")
            self.assertEqual(0, terminal.end()[1])

    def test_options_of_no_use_in_a_conversation_are_refused(self):
        for option in ("--json",), ("--samples", "2"):
            with Terminal("run", *option) as terminal:
                text, code = terminal.end()
            self.assertEqual(2, code)
            self.assertIn(f"{option[0]} is of no use in a conversation", text)

    def test_a_model_that_does_not_chat_asks_for_a_prompt(self):
        with Terminal("run", "--plain") as terminal:
            text, code = terminal.end()
        self.assertEqual(1, code)
        self.assertIn("no prompt", text)


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

    def test_an_answer_keeps_to_a_schema_or_an_expression(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                                   "age": {"type": "integer", "minimum": 1, "maximum": 99}},
                  "required": ["name", "age"]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(schema))
            file.flush()
            texts = [attacca("run", "Who are you?", "--json-schema", given, "--seed", "3").stdout
                     for given in (json.dumps(schema), file.name)]
        self.assertEqual(texts[0], texts[1])
        value = json.loads(texts[0])
        self.assertEqual(["name", "age"], list(value))
        self.assertTrue(1 <= value["age"] <= 99 and len(value["name"]) <= 8, value)
        done = attacca("run", "Is it hot?", "--regex", "(yes|no), it is( not)?", "--samples", "4", "--json")
        for line in done.stdout.splitlines():
            reply = json.loads(line)
            self.assertEqual("stop", reply["finish"])
            self.assertRegex(reply["text"], "^(yes|no), it is( not)?$")
        self.assertTrue(attacca("run", "Who are you?", "--json-object", "-n", "9").stdout.startswith("{"))

    def test_a_schema_or_expression_that_cannot_be_used_is_refused(self):
        for arguments, status, words in ((["--json-schema", '{"items": {"not": {}}}'], 1, "'#/items/not'"),
                                         (["--json-schema", "nothing.json"], 1, "--json-schema nothing.json"),
                                         (["--regex", "a("], 1, "regular expression"),
                                         (["--regex", "a", "--json-object"], 2, "--json-object and --regex"),
                                         (["--regex", "a", "--ignore-end"], 2, "--ignore-end")):
            done = attacca("run", "Who are you?", *arguments)
            self.assertEqual(status, done.returncode, done.stderr)
            self.assertIn(words, done.stderr)

    def test_user_text_cannot_forge_special_tokens(self):
        done = attacca("run", "<|im_end|>", "-n", "1", "--json")
        self.assertGreater(json.loads(done.stdout)["prompt_tokens"],
                           json.loads(attacca("run", "x", "-n", "1", "--json").stdout)["prompt_tokens"] + 2)

    def test_what_cannot_be_is_refused_in_one_line(self):
        for arguments, words in ((["run", "nothing.gguf", "hello"], "nothing.gguf"),
                                 (["run", "hello", "--context", "99999"], "99999"),
                                 (["run", "smolm2", "hello"], "smollm2"),
                                 (["inspect", "nothing"], "nothing")):
            done = attacca(*arguments)
            self.assertEqual(1, done.returncode, arguments)
            self.assertIn(words, done.stderr)
            self.assertEqual(1, len(done.stderr.strip().splitlines()), done.stderr)




class Graphs(unittest.TestCase):
    QUESTION = ("run", "Who are you?", "--temperature", "0")

    def test_every_mode_answers_the_same_and_says_how_it_ran(self):
        answers = set()
        for mode, counted in (("full", "1 mixed"), ("piecewise", "1 piecewise"), ("decode", "1 kernels"),
                              ("off", "graphs are off")):
            done = attacca(*self.QUESTION, "--graphs", mode, "--stats")
            answers.add(done.stdout)
            self.assertIn(counted, done.stderr)
        self.assertEqual(1, len(answers))

    def test_a_file_gives_options_and_the_command_line_goes_first(self):
        with tempfile.TemporaryDirectory() as folder:
            config, log = pathlib.Path(folder, "engine.yaml"), pathlib.Path(folder, "steps.jsonl")
            config.write_text(f"graphs: off\ndecode_sizes: [1, 2]\nmixed_sizes: 16,64\npadding: off\nsame_bits: off\n"
                              f"step_log: {log}\n")
            done = attacca(*self.QUESTION, "--config", str(config), "--graphs", "full", "--padding", "on", "--stats")
            self.assertIn("decode 3..8: graphs of mixed sizes", done.stderr)
            self.assertIn("mixed 65..512: no graph (the largest size is 64)", done.stderr)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
            self.assertTrue(all(step["hit"] for step in steps))
            self.assertEqual({"mixed": 16, "decode": 1}, {step["mode"]: step["size"] for step in steps})
            for text, problem in (("slotz: 3", "line 1: 'slotz' is no option of run"), ("graphs: no", "'no' is none of full, "),
                                  ("decode_sizes: {a: 1}", "no list of values"), ("slots: x", "line 1"),
                                  ("[1, 2]", "option: value"), ("a: [b", "end of sequence")):
                config.write_text(text + "\n")
                done = attacca(*self.QUESTION, "--config", str(config))
                self.assertEqual(1, done.returncode)
                self.assertIn(problem, done.stderr)


class StepGraph(unittest.TestCase):
    """`attacca graph step`, which needs no weights: a large shape takes no time."""

    def names(self, *arguments):
        done = attacca("graph", "step", "--device", "host", "--json", *arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        return [node["name"] for node in json.loads(done.stdout)["nodes"]]

    def test_has_the_kernels_of_every_layer_between_embedding_and_sampling(self):
        names = self.names("--shape", "llama-8b")
        self.assertEqual(["embed", "layer 0 norm", "layer 0 qkv", "layer 0 rope", "layer 0 attention"], names[:5])
        self.assertEqual(["layer 31 down", "final norm", "logits", "sample"], names[-4:])
        self.assertEqual(4 + 8 * 32, len(names))
        self.assertEqual(4 + 8 * 2, len(self.names("--layers", "2")))
        for command in ("graph", "step"), ("roofline", "step"):
            done = attacca(*command, "--shape", "llama-1b", "--layers", "17")
            self.assertEqual((2, "attacca: --layers 17: llama-1b has 16; give 16 or fewer\n"),
                             (done.returncode, done.stderr[:done.stderr.index("See ")]))

    def test_a_prompt_and_a_batch_have_grids_of_their_own(self):
        texts = {attacca("graph", "step", "--device", "host", "--layers", "1", *more).stdout
                 for more in ((), ("--batch", "8"), ("--tokens", "64"))}
        self.assertEqual(3, len(texts))

    def test_its_options_are_refused_elsewhere_and_shapes_are_known_by_name(self):
        done = attacca("graph", "heat", "--layers", "2")
        self.assertEqual(2, done.returncode)
        self.assertIn("attacca graph step", done.stderr)
        done = attacca("graph", "step", "--tokens", "8", "--batch", "4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("give one of them", done.stderr)
        done = attacca("graph", "step", "--shape", "llama-2b")
        self.assertEqual(2, done.returncode)
        self.assertIn("llama-1b", done.stderr)


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
            scored = attacca("run", model, "Once upon a time", "--temperature", "0", "-n", "8", "--json", "--logprobs", "0")
        recorded = (STORIES / "greedy-once-upon-a-time-128.txt").read_text().strip()
        self.assertTrue(done.stdout.strip().startswith(recorded) or recorded.startswith(done.stdout.strip()),
                        done.stdout + "\n--\n" + recorded)
        self.assertGreater(len(done.stdout), 300)
        reply = json.loads(scored.stdout)  # a token's text keeps the blank before a word
        self.assertEqual(reply["text"], "".join(entry["text"] for entry in reply["logprobs"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
