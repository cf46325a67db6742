#!/usr/bin/env python3
"""Tests of what `attacca run` and its neighbours take and refuse, with the embedded model: usage_test.py <binary>."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BINARY = os.path.abspath(sys.argv[1])
NOBODY = 65534
GREEDY = ("--temperature", "0")


def attacca(*arguments, given=b"", cwd=None, user=None, environment=None):
    """Bytes in, text out: what is no UTF-8 shows as \\xff."""
    done = subprocess.run([BINARY, *arguments], input=given, capture_output=True, timeout=120, cwd=cwd, user=user,
                          env={**os.environ, **(environment or {})})
    done.stdout, done.stderr = (text.decode(errors="backslashreplace") for text in (done.stdout, done.stderr))
    return done


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
        """A plain prompt comes back at the start of the output, as it was typed."""
        done = attacca("run", "--plain", "-n", "1", *GREEDY, *arguments, cwd=cwd)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(prompt, done.stdout[:len(prompt)])


class Output(UsageTest):
    def test_output_that_cannot_be_written_is_an_error(self):
        commands = [("run", "Who are you?"), ("run", "Who are you?", "--json"), ("tokenize", "small", "hello"),
                    ("inspect", "small", "--json"), ("doctor",), ("--help",), ("help", "run")]
        for command in commands:
            with self.subTest(command), open("/dev/full", "wb") as full:
                done = subprocess.run([BINARY, *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
                self.assertEqual(1, done.returncode, done.stderr)
                self.assertIn("No space left on device", done.stderr)
                self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)

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

    def test_the_memory_floor_is_never_beaten(self):
        for device in "host", "host-serial":
            done = attacca("run", "Who are you?", *GREEDY, "--stats", "--device", device)
            self.assertRegex(done.stderr, r"\nfloor     (none: .* GB/s|.* \b(100|\d\d?) % of it reached)")


class Values(UsageTest):
    def test_a_flag_is_on_or_off(self):
        for flag in "--same-bits", "--plain":
            self.assert_refused(attacca("run", "hello", f"{flag}=maybe"), f"{flag}: 'maybe' is neither on nor off")
        self.assertEqual(0, attacca("run", "hello", "-n", "1", "--json=off").returncode)

    def test_what_the_engine_refuses_is_told_in_options(self):
        for arguments, words in ((("--slots", "5000"), "--slots is 5000"), (("--context", "99999"), "--context is 99999"),
                                 (("--device", "cuda:99"), "--device"), (("--kv-type", "fp8", "--device", "host"),
                                                                         "--kv-type is fp8"),
                                 (("--step-log", "/no/such/folder/log"), "--step-log")):
            done = attacca("run", "hello", *arguments)
            self.assert_refused(done, words, status=1)
            self.assertNotIn("Device::", done.stderr)

    def test_a_key_that_comes_twice_is_refused(self):
        for text in b"slots: 2\nslots: 4\n", b"page_size: 16\npage-size: 32\n":
            done = attacca("run", "hi", "--config", self.file("twice.yaml", text))
            self.assert_refused(done, "line 2", "twice", status=1)

    def test_any_number_of_threads_gives_the_same_text(self):
        texts = {attacca("run", "Who are you?", *GREEDY, "--threads", count).stdout for count in "12"}
        self.assertEqual({attacca("run", "Who are you?", *GREEDY).stdout}, texts)


class Files(UsageTest):
    def test_a_text_to_score_comes_from_standard_input_too(self):
        text = b"Once upon a time, a fox lived in the forest."
        piped = attacca("score", "small", "--text", "-", given=text)
        self.assertEqual(attacca("score", "small", "--text", self.file("text", text)).stdout, piped.stdout)
        self.assertLess(json.loads(piped.stdout)["perplexity"], 20)

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
