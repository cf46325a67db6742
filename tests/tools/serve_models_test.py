#!/usr/bin/env python3
"""Tests of `attacca serve` with several models: serve_models_test.py <binary>."""
import concurrent.futures
import json
import signal
import subprocess
import sys
import unittest

from serving import BINARY, PATIENCE_S, TEXT, Server

RAW = "tests/engine/fixtures/llama"  # a random model without a tokenizer


def states_of(server):
    return {model["id"]: model["state"] for model in json.loads(server.get("/v1/models")[2])["data"]}


class SeveralModels(unittest.TestCase):
    def test_a_request_selects_its_model_and_loads_it(self):
        with Server("small", "--model", "story=small", "--model", f"raw={RAW}", "--context", "128") as server:
            self.assertIn("serves small, story, raw at", server.line)
            self.assertEqual({"small": "loaded", "story": "unloaded", "raw": "unloaded"}, states_of(server))
            fields = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
            first, second = (server.answer(TEXT, model=name, **fields) for name in ("small", "story"))
            self.assertEqual(("small", "story"), (first["model"], second["model"]))
            self.assertEqual(first["choices"][0]["text"], second["choices"][0]["text"])
            self.assertEqual({"small": "loaded", "story": "loaded", "raw": "unloaded"}, states_of(server))
            vector = server.answer("/v1/embeddings", model=RAW, input=[1, 2, 3])
            self.assertEqual("raw", vector["model"])
            status, reply = server.post(TEXT, model="gpt", prompt="x")
            self.assertEqual((404, "model_not_found"), (status, reply["error"]["code"]))
            for name in "small", "story", "raw":
                self.assertIn(f"'{name}'", reply["error"]["message"])
            self.assertEqual(200, server.post("/v1/models/unload", model="story")[0])
            self.assertEqual("unloaded", states_of(server)["story"])
            self.assertEqual(200, server.post("/v1/models/load", model="story")[0])
            self.assertEqual("loaded", states_of(server)["story"])

    def test_a_model_without_a_name_has_that_of_its_file_or_folder(self):
        with Server("--model", "small", "--model", RAW + "/") as server:
            self.assertEqual({"small": "unloaded", "llama": "unloaded"}, states_of(server))
            self.assertEqual("llama", server.answer("/v1/embeddings", model="llama", input=[1, 2, 3])["model"])

    def test_streams_of_several_models_at_once_have_the_text_of_each_alone(self):
        for scheduler in "host", "resident":
            with self.subTest(scheduler), concurrent.futures.ThreadPoolExecutor(16) as pool, \
                    Server("--model", "a=small", "--model", "b=small", "--context", "256", "--scheduler", scheduler) as server:
                def text(number):
                    fields = {"prompt": f"Once there were {number // 2} foxes", "seed": number // 2, "max_tokens": 32}
                    if number % 8 < 2:
                        fields["response_format"] = {"type": "regex", "pattern": "(red|blue) [a-z ]{4,9}"}
                    return server.answer(TEXT, model="ab"[number % 2], **fields)["choices"][0]["text"]
                together = list(pool.map(text, range(24)))
                self.assertEqual(together, [text(number) for number in range(24)])
                self.assertEqual(together[0::2], together[1::2])
                for number in range(0, 24, 8):
                    self.assertRegex(together[number], "^(red|blue) [a-z ]{4,9}$")
                steps = json.loads(server.get("/steps")[2])["steps"]
                self.assertEqual({"a", "b"}, {step["model"] for step in steps})

    def test_an_idle_model_is_unloaded_and_comes_back(self):
        with Server("--model", "story=small", "--unload-after", "0.2", "--log-format", "text") as server:
            self.assertEqual(200, server.post(TEXT, model="story", prompt="Once", max_tokens=2)[0])
            server.wait_for_metric("attacca_model_loaded", lambda value: value == 0)
            self.assertEqual(200, server.post(TEXT, prompt="Once", max_tokens=2)[0])
            server.process.send_signal(signal.SIGTERM)
            log = server.process.communicate(timeout=PATIENCE_S)[1]
        self.assertIn("story is unloaded because nobody used it", log)

    def test_what_cannot_be_combined_is_refused_by_name(self):
        for options, status, part in (
                (["--model", "a=small", "--model", "a=small"], 2, "two models are called 'a'"),
                (["small", "--model", "small"], 2, "two models are called 'small'"),
                (["--model", "a="], 2, "NAME=MODEL"),
                (["--model", "a=nowhere.gguf"], 1, "no model 'nowhere.gguf'"),
                (["--model", "a=small", "--name", "b"], 2, "--name b names MODEL"),
                (["small", "--model", "a=small", "--memory-limit", "0.001"], 1, "does not fit"),
                (["--memory-limit", "0.001"], 1, "raise --memory-limit, or use a smaller --step-tokens"),
                (["--step-log", "/no/such/folder/log"], 1, "--step-log /no/such/folder/log")):
            done = subprocess.run([BINARY, "serve", "--port", "0", *options], capture_output=True, text=True,
                                  timeout=PATIENCE_S)
            self.assertEqual((status, ""), (done.returncode, done.stdout), done.stderr)
            self.assertIn(part, done.stderr)
            reasons = [line for line in done.stderr.splitlines() if not line.startswith("See ")]
            self.assertEqual(1, len(reasons), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
