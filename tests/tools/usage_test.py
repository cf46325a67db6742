#!/usr/bin/env python3
"""Tests of the arguments of `attacca run` and related commands, with the embedded model: usage_test.py <binary>."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from progress import without_progress

BINARY = os.path.abspath(sys.argv[1])
NOBODY = 65534
GREEDY = ("--temperature", "0")


def attacca(*arguments, given=b"", cwd=None, user=None, environment=None):
    """Takes bytes and returns text, with bytes that are not UTF-8 as \\xff."""
    done = subprocess.run([BINARY, *arguments], input=given, capture_output=True, timeout=120, cwd=cwd, user=user,
                          env={**os.environ, **(environment or {})})
    done.stdout, done.stderr = (text.decode(errors="backslashreplace") for text in (done.stdout, done.stderr))
    done.stderr = without_progress(done.stderr)
    return done


HAS_BENCHMARKS = "this build has no benchmarks" not in attacca("bench", "--help").stdout
HAS_SERVER = "this build has no server" not in attacca("serve", "--port", "0", "--model", "").stderr


class UsageTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        self.folder.chmod(0o755)

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    def assert_refused(self, done, *words, status=2):
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        self.assertTrue(done.stderr.startswith("attacca: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def assert_echoed(self, prompt, *arguments, cwd=None):
        """Checks that the output starts with the plain prompt as it was typed."""
        done = attacca("run", "--plain", "-n", "1", *GREEDY, *arguments, cwd=cwd)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(prompt, done.stdout[:len(prompt)])


class Commands(UsageTest):
    @unittest.skipUnless(HAS_BENCHMARKS, "bench serve is the command within another")
    def test_help_explains_a_command_within_another(self):
        done = attacca("help", "bench", "serve")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(attacca("bench", "serve", "--help").stdout, done.stdout)
        self.assert_refused(attacca("help", "bench", "sreve"), "no command 'sreve'; the nearest is serve")
        self.assert_refused(attacca("help", "run", "fast"), "run has no commands of its own, such as 'fast'")
        self.assert_refused(attacca("nosuch", "--help"), "no command 'nosuch'")

    @unittest.skipUnless(HAS_BENCHMARKS, "bench serve is the command within another")
    def test_words_in_front_of_a_command_that_would_be_ignored_are_refused(self):
        for words in (("queue",), ("--device", "host")):
            done = attacca("bench", *words, "serve", "--url", "http://127.0.0.1:9")
            self.assert_refused(done, f"'{words[-1]}' stands in front of serve and would be ignored")


class Prompt(UsageTest):
    def test_a_prompt_arrives_as_typed_whatever_it_looks_like(self):
        for prompt in ("x" * 300, "a long line " * 30, "[INST] hi [/INST]", "[a,b]", "demo", "a/b or c", "ends in .gguf",
                       "- a list"):
            with self.subTest(prompt):
                self.assert_echoed(prompt, prompt)

    def test_a_prompt_behind_an_option_that_may_come_again_stays_a_prompt(self):
        self.assert_echoed("Once upon a time", "--stop", "[x,y]", "--stop", "zebra", "Once upon a time")
        self.assert_echoed("Once upon a time", "--stop-token", "1", "Once upon a time")
        self.assert_echoed("Once upon a time", "--same-bits", "Once upon a time")
        self.assert_echoed("Once upon a time", "--same-bits", "off", "Once upon a time")

    def test_a_word_behind_same_bits_that_is_neither_on_nor_off_is_no_prompt(self):
        for word in "maybe", "true", "of":
            self.assert_refused(attacca("run", "--same-bits", word, "Hello"), "--same-bits", f"'{word}'", "before the flag")
        self.assert_echoed("maybe", "maybe", "--same-bits")

    def test_a_file_of_the_same_name_is_not_asked(self):
        (self.folder / "hello").mkdir()
        self.file("Why", b"")
        for prompt in "hello", "Why":
            self.assert_echoed(prompt, prompt, cwd=self.folder)

    def test_with_a_model_named_by_option_every_word_is_a_prompt(self):
        for prompt in "small", "llama3", "/no/such/file", "x.gguf":
            self.assert_echoed(prompt, "-m", "small", prompt)
            self.assert_echoed(prompt, "small", prompt)
        self.assert_refused(attacca("run", "-m", "small", "two", "words"), "quotes")

    def test_a_word_that_nearly_names_a_model_is_no_prompt(self):
        for word, near in (("smolm2", "smollm2"), ("SmolLM2", "smollm2"), ("smal", "small"), ("llama3", "nearest name"),
                           ("qwen2.5-7b", "nearest name")):
            self.assert_refused(attacca("run", word), f"'{word}'", near, "-m small", status=1)
        self.assert_refused(attacca("run", "smolm2", "hello"), "nearest name is smollm2", status=1)

    def test_a_word_spelled_like_a_path_is_a_model(self):
        for word in "./nothing", "no/such/folder", "nothing.gguf":
            self.assert_refused(attacca("run", word), f"no model '{word}'", status=1)
        self.assert_refused(attacca("run", "x/" * 300), "no model", status=1)

    def test_no_prompt_and_one_word_too_many_are_wrong_usage(self):
        self.assert_refused(attacca("run", "a", "b", "c"), "'c'", "quotes", "attacca run --help")
        self.assert_refused(attacca("run", ""), "PROMPT is empty")
        self.assert_refused(attacca("run"), "standard input holds no prompt", status=1)


class Output(UsageTest):
    def test_output_that_cannot_be_written_is_an_error(self):
        commands = [("run", "Who are you?"), ("run", "Who are you?", "--json"), ("tokenize", "small", "hello"),
                    ("inspect", "small", "--json"), ("doctor",), ("--help",), ("help", "run")]
        for command in commands:
            with self.subTest(command), open("/dev/full", "wb") as full:
                done = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertIn("No space left on device", done.stderr)
                self.assertEqual(1, len(without_progress(done.stderr).splitlines()), done.stderr)

    def test_bytes_that_are_no_text_never_spoil_the_json(self):
        broken = b"a \xff\xc3 b"
        prompts = self.file("prompts", broken + b"\nhello\n")
        for arguments, given in ((("run", broken, "-n", "4"), b""), (("run", "-n", "4"), broken),
                                 (("run", "-f", prompts, "-n", "4"), b""), (("run", "--plain", broken, "-n", "4"), b""),
                                 (("run", "hi", "-n", "4", "--system", broken), b""),
                                 (("tokenize", "small", broken), b""), (("score", "small", "--text", "-"), broken)):
            done = attacca(*arguments, *(() if arguments[0] == "score" else ("--json",)), given=given)
            self.assertEqual(0, done.returncode, done.stderr)
            for line in done.stdout.splitlines() if arguments[0] == "run" else [done.stdout]:
                json.loads(line)

    def test_pieces_of_a_character_are_json_too(self):
        ids = json.loads(attacca("tokenize", "small", "\N{PILE OF POO}", "--json").stdout)["ids"]
        done = attacca("tokenize", "small", str(ids[0]), "--decode", "--json")
        self.assertIn("text", json.loads(done.stdout))

    def test_logprobs_have_the_text_of_every_token(self):
        done = attacca("run", "Who are you?", *GREEDY, "--json", "--logprobs", "2")
        reply = json.loads(done.stdout)
        self.assertTrue("".join(entry["text"] for entry in reply["logprobs"]).startswith(reply["text"]))
        for entry in reply["logprobs"]:
            self.assertEqual((entry["token"], entry["text"]), (entry["top"][0]["token"], entry["top"][0]["text"]))

    def test_memory_and_graphs_are_told_when_asked_for(self):
        quiet = attacca("run", "Who are you?", *GREEDY)
        self.assertEqual("", quiet.stderr)
        verbose = attacca("run", "Who are you?", *GREEDY, "-v")
        self.assertEqual(quiet.stdout, verbose.stdout)
        self.assertRegex(verbose.stderr, r"^memory    .*\ngraphs    ")
        self.assertNotIn("tokens/s", verbose.stderr)

    def test_the_memory_floor_is_never_beaten(self):
        for device in "host", "host-serial":
            done = attacca("run", "Who are you?", *GREEDY, "--stats", "--device", device)
            self.assertRegex(done.stderr, r"\nfloor     (none: .* GB/s|.* \b(100|\d\d?) % of it reached)")


class Values(UsageTest):
    def test_a_value_out_of_range_names_its_option(self):
        for option, value in (("--max-tokens", "-1"), ("--max-tokens", "0"), ("--max-tokens", "1e3"), ("--seed", "-3"), ("--seed", str(2**64)),
                              ("--seed", "0x10"), ("--temperature", "-1"), ("--temperature", "nan"), ("--top-p", "0"),
                              ("--top-k", "-1"), ("--min-p", "2"), ("--samples", "0"), ("--threads", "0"),
                              ("--threads", "-1"), ("--slots", "-1"), ("--pages", "-1"), ("--logprobs", "21"),
                              ("--stop-token", "-1"), ("--decode-sizes", "1,-2"), ("--memory-fraction", "2"),
                              ("--page-size", "17"), ("--context", str(2**64)), ("--padding", "maybe"), ("--slots", "1025"),
                              ("--step-tokens", "65537"), ("--repetition-penalty", "101"), ("--device", "gpu"),
                              ("--device", "cuda:x")):
            with self.subTest(f"{option} {value}"):
                self.assert_refused(attacca("run", "hello", "--json", option, value), option, value.split(",")[-1],
                                    "See attacca run --help.")

    def test_what_is_missing_or_given_twice_is_named(self):
        for arguments, words in ((("run", "--seed"), "--seed needs a value: --seed UINT"),
                                 (("run", "hi", "--seed", "1", "--seed", "2"), "--seed is given 2 times, as 1 and 2"),
                                 (("score",), "model and --text are missing"), (("graph",), "EXAMPLE is missing"),
                                 (("graph", "heat", "--dot", "--json"), "--text, --dot, --json and --svg"),
                                 (("tokenize", "small", "hi", "--file", "-"), "a text or --file"),
                                 (("run", "hi", "--graphs", "some"), "'some' is none of full, piecewise, decode, off")):
            self.assert_refused(attacca(*arguments), words, f"See attacca {arguments[0]} --help.")

    def test_a_flag_is_on_or_off(self):
        for flag in "--same-bits", "--plain":
            self.assert_refused(attacca("run", "hello", f"{flag}=maybe"), f"{flag}: 'maybe' is neither on nor off")
        self.assertEqual(0, attacca("run", "hello", "-n", "1", "--json=off").returncode)

    def test_a_number_with_a_leading_zero_is_decimal(self):
        one, other = (attacca("run", "--plain", "Once", "-n", "8", "--seed", seed).stdout for seed in ("010", "10"))
        self.assertEqual(one, other)

    def test_what_the_engine_refuses_is_told_in_options(self):
        for arguments, words in ((("--context", "99999"), "--context is 99999"),
                                 (("--device", "cuda:99"), "--device"), (("--kv-type", "fp8", "--device", "host"),
                                                                         "--kv-type is fp8"),
                                 (("--step-log", "/no/such/folder/log"), "--step-log"),
                                 (("--step-log", "/dev/full"), "the step log /dev/full cannot be written")):
            done = attacca("run", "hello", *arguments)
            self.assert_refused(done, words, status=1)
            self.assertNotIn("Device::", done.stderr)

    def test_options_that_contradict_each_other_are_wrong_usage(self):
        for arguments, words in ((("--decode-sizes", "100"), "--decode-sizes has 100, but no such step has more tokens than "
                                                             "--slots 8; leave it out, or use --slots 100"),
                                 (("--mixed-sizes", "8,4"), "--mixed-sizes has 4 after 8"),
                                 (("--mixed-sizes", "600"), "use --step-tokens 600"),
                                 (("--slots", "16", "--step-tokens", "4"), "--step-tokens 4 is less than --slots 16, and each "
                                  "slot may decode a token in a step; use --step-tokens 16, or --slots 4"),
                                 (("--step-tokens", "7"), "--step-tokens 7 is less than --slots 8"),
                                 (("--decode-step-tokens", "7"), "use --decode-step-tokens 8, or --slots 7"),
                                 (("--scheduler", "resident", "--overlap", "off"), "--overlap is off"),
                                 (("--scheduler", "resident", "--graphs", "off"), "needs a graph for every step"),
                                 (("--scheduler", "host", "--resident-loop", "while-node"), "--resident-loop is while-node")):
            for command in (("run", "hi"), ("serve", "--port", "0"))[:1 + HAS_SERVER]:
                self.assert_refused(attacca(*command, *arguments), words, f"See attacca {command[0]} --help.")
        done = attacca("run", "hi", "-n", "1", "--slots", "8", "--step-tokens", "8", "--decode-step-tokens", "8")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_an_empty_name_of_a_file_or_model_is_refused(self):
        for command, option in (("run", "--trace"), ("run", "--step-log"), ("run", "--prompts"), ("serve", "--api-key-file"),
                                ("convert", "--output"), ("graph", "--output"), ("trace", "--output"), ("run", "--model")):
            if command != "serve" or HAS_SERVER:
                self.assert_refused(attacca(command, option, ""), f"{option}: it is empty; give it a name")
        for command in ("inspect", "serve")[:1 + HAS_SERVER]:
            self.assert_refused(attacca(command, ""), "MODEL: it is empty")

    def test_options_that_would_be_ignored_are_refused(self):
        prompts = self.file("prompts", b"hello\n")
        for arguments, word in ((("run", "hi", "--logprobs", "2"), "--json"), (("run", "hi", "-f", prompts), "--prompts"),
                                (("run", "--plain", "hi", "--system", "x"), "--system"),
                                (("run", "hi", "--stop", ""), "--stop"),
                                (("run", "hi", "--json-schema", " "), "--json-schema is empty"),
                                (("run", "hi", "--samples", "100001"), "--samples"),
                                (("run", "--", "-x hello", "-n", "3"), "one word too many"),
                                (("run", "hi", "--samples", "2", *GREEDY), "--temperature"),
                                (("run", "hi", "--threads", "2", "--device", "host-serial"), "--threads"),
                                (("tokenize", "small", "1", "--decode", "--add-special"), "--add-special"),
                                (("pull", "--list", "smollm2"), "--list")):
            self.assert_refused(attacca(*arguments), word, f"attacca {arguments[0]} --help")
        self.assert_refused(attacca("run", "hi", "--stop-token", "999999"), "999999", "the model has 0 to", status=1)

    def test_a_key_that_comes_twice_is_refused(self):
        for text in b"slots: 2\nslots: 4\n", b"page_size: 16\npage-size: 32\n":
            done = attacca("run", "hi", "--config", self.file("twice.yaml", text))
            self.assert_refused(done, "line 2", "twice", status=1)

    def test_a_printed_config_says_the_same_when_it_is_read(self):
        given = ("--no-prefix-cache", "--stop", "null", "--stop", "a\nb\"c\\ 'd'", "--stop", "~")
        printed = attacca("run", *given, "--print-config").stdout
        self.assertIn("no-prefix-cache: true", printed.splitlines())
        again = attacca("run", "--config", self.file("again.yaml", printed.encode()), "--print-config")
        self.assertEqual(printed, again.stdout, again.stderr)
        self.assertIn("no-prefix-cache: false", attacca("run", "--no-prefix-cache=off", "--print-config").stdout)
        self.assertNotIn("{false}", attacca("help", "run").stdout)

    def test_what_a_config_cannot_say_is_refused(self):
        for text, words in ((b"temperature: 0\n---\nnosuch: 3\n", ("line 3", "second document")),
                            (b"config: other.yaml\n", ("line 1", "for the command line only"))):
            self.assert_refused(attacca("run", "hi", "--config", self.file("no.yaml", text)), *words, status=1)

    def test_options_that_do_nothing_without_another_are_refused(self):
        for arguments in (("--trace-level", "graph"), ("--rank-transport", "nccl"), ("--rank-deadline", "5")):
            self.assert_refused(attacca("run", "hi", *arguments), arguments[0])

    def test_samples_have_seeds_of_their_own_and_can_be_drawn_again(self):
        arguments = ("run", "--plain", "Once upon a time", "-n", "16", "--json", "--temperature", "1")
        done = attacca(*arguments, "--samples", "3", "--seed", "7")
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([7, 8, 9], [reply["seed"] for reply in replies])
        self.assertEqual(3, len({reply["text"] for reply in replies}))
        again = json.loads(attacca(*arguments, "--seed", "9").stdout)
        self.assertEqual(replies[2]["tokens"], again["tokens"])

    def test_a_stop_token_ends_an_answer(self):
        whole = json.loads(attacca("run", "Who are you?", *GREEDY, "--json").stdout)["tokens"]
        reply = json.loads(attacca("run", "Who are you?", *GREEDY, "--json", "--stop-token", str(whole[3])).stdout)
        self.assertEqual(("stop", whole[:whole.index(whole[3]) + 1]), (reply["finish"], reply["tokens"]))

    def test_many_more_threads_than_cores_are_refused(self):
        most = 4 * os.cpu_count()
        for count in most + 1, 100000:
            self.assert_refused(attacca("run", "hi", "--device", "host", "--threads", str(count)), f"--threads {count}",
                                f"give {most} or fewer", status=1)
        self.assertEqual(0, attacca("run", "hi", "-n", "1", "--device", "host", "--threads", str(most)).returncode)

    def test_any_number_of_threads_gives_the_same_text(self):
        texts = {attacca("run", "Who are you?", *GREEDY, "--threads", count).stdout for count in "12"}
        self.assertEqual({attacca("run", "Who are you?", *GREEDY).stdout}, texts)


class Files(UsageTest):
    def test_a_bad_line_of_prompts_fails_alone(self):
        prompts = self.file("prompts", b"Who are you?\n\n" + b"fox " * 9000 + b"\nWhat is 3 plus 4?\n")
        done = attacca("run", "-f", prompts, *GREEDY, "--json")
        self.assert_refused(done, f"--prompts {prompts}: line 3: ", status=1)
        first, bad, last = map(json.loads, done.stdout.splitlines())
        self.assertIn("7", last["text"])
        self.assertEqual(("failed", 3), (bad["finish"], bad["line"]))
        self.assertIn("tokens", bad["error"])
        self.assertEqual([1, 4], [reply["line"] for reply in (first, last)])
        done = attacca("run", "-f", prompts, *GREEDY)
        self.assertEqual(1, done.returncode)
        self.assertIn("What is 3 plus 4?\n", done.stdout)

    def test_answers_come_as_soon_as_those_before_them_have(self):
        prompts = self.file("prompts", b"Tell me a story.\n" * 400)
        with subprocess.Popen([BINARY, "run", "-f", prompts, "--json", "--ignore-end"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as running:
            first = json.loads(running.stdout.readline())
            self.assertIsNone(running.poll(), "the others are still to come")
            running.kill()
        self.assertEqual(1, first["line"])

    def test_a_prompt_that_fails_says_why_in_json_too(self):
        done = attacca("run", "fox " * 9000, "--json")
        self.assert_refused(done, "tokens", status=1)
        self.assertEqual("failed", json.loads(done.stdout)["finish"])

    def test_a_carriage_return_belongs_to_the_end_of_a_line(self):
        done = attacca("run", "-f", "-", *GREEDY, "--json", given=b"Who are you?\r\n\r\nWhat is 3 plus 4?\r\n")
        self.assertEqual(["Who are you?", "What is 3 plus 4?"],
                         [json.loads(line)["prompt"] for line in done.stdout.splitlines()])

    def test_a_text_to_score_comes_from_standard_input_too(self):
        text = b"Once upon a time, a fox lived in the forest."
        piped = attacca("score", "small", "--text", "-", given=text)
        self.assertEqual(attacca("score", "small", "--text", self.file("text", text)).stdout, piped.stdout)
        self.assertLess(json.loads(piped.stdout)["perplexity"], 20)

    def test_a_text_to_tokenize_comes_from_standard_input_too(self):
        text = b"Once upon a time"
        ids = attacca("tokenize", "small", text).stdout
        for arguments in ("-",), ("--file", "-"):
            self.assertEqual(ids, attacca("tokenize", "small", *arguments, given=text).stdout)
        self.assertEqual(text.decode() + "\n", attacca("tokenize", "small", "--decode", "-", given=ids.encode()).stdout)

    def test_a_folder_is_no_text(self):
        for arguments in (("run", "-f"), ("run", "hi", "--config"), ("score", "small", "--text"), ("tokenize", "small", "--file")):
            self.assert_refused(attacca(*arguments, str(self.folder)), "it is a folder", status=1)

    def test_a_pipe_is_no_model(self):
        pipe = str(self.folder / "model.gguf")
        os.mkfifo(pipe)
        for arguments in (("run", pipe, "hi"), ("inspect", pipe), ("tokenize", pipe, "hi"), ("score", pipe, "--text", "-")):
            self.assert_refused(attacca(*arguments), "is a named pipe; give a file or a folder", status=1)
        self.assert_refused(attacca("run", "/dev/zero", "hi"), "device", status=1)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_a_model_without_permission_is_told_in_our_words(self):
        model = self.file("model.gguf", b"GGUF")
        os.chmod(model, 0)
        self.assert_refused(attacca("run", model, "hi", user=NOBODY), "may not be read", status=1)
        hidden = self.folder / "hidden"
        hidden.mkdir(mode=0o700)
        done = attacca("run", str(hidden / "model.gguf"), "hi", user=NOBODY)
        self.assert_refused(done, "Permission denied", status=1)
        self.assertNotIn("filesystem error", done.stderr)

    def test_a_cache_that_cannot_be_written_is_told_in_our_words(self):
        done = attacca("pull", "smollm2", environment={"XDG_CACHE_HOME": self.file("file", b"")})
        self.assert_refused(done, "XDG_CACHE_HOME", status=1)
        self.assertNotIn("filesystem error", done.stderr)


class Help(UsageTest):
    def test_help_of_a_command_is_its_own_option_help(self):
        self.assertEqual(attacca("run", "--help").stdout, attacca("help", "run").stdout)
        self.assertEqual(attacca("--help").stdout, attacca("help").stdout)
        self.assert_refused(attacca("help", "rnu"), "'rnu'", "run")

    def test_an_error_points_to_the_help_of_its_command(self):
        self.assert_refused(attacca("run", "--no-such-option"), "--no-such-option", "See attacca run --help.")
        self.assert_refused(attacca("score", "small", "--text", "-", "--sumary"), "--summary", "See attacca score --help.")
        self.assert_refused(attacca("rnu"), "nearest is run", "See attacca --help.")

    def test_a_device_that_is_not_here_is_told_in_options(self):
        for command in ("run", "hi"), ("graph", "heat"):
            self.assertNotIn("Device::", attacca(*command, "--device", "cuda:99").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
