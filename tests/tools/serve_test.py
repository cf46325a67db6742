#!/usr/bin/env python3
"""Tests of `attacca serve` with the embedded model, over the loopback device: serve_test.py <binary>."""
import base64
import concurrent.futures
import json
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from serving import BINARY, CHAT, PATIENCE_S, TEXT, OneServer, Server, texts_of, user


class Replies(OneServer):
    def test_greedy_text_is_that_of_attacca_run(self):
        run = subprocess.run([BINARY, "run", "Who are you?", "--temperature", "0", "--json"], capture_output=True,
                             text=True, timeout=PATIENCE_S, check=True)
        reply = self.server.answer(CHAT, messages=user("Who are you?"), temperature=0)
        self.assertEqual(json.loads(run.stdout)["text"], reply["choices"][0]["message"]["content"])
        self.assertEqual("stop", reply["choices"][0]["finish_reason"])

    def test_a_stream_has_the_text_of_a_whole_reply(self):
        for path, prompt in (CHAT, {"messages": user("Tell me a story.")}), (TEXT, {"prompt": "Once upon a time"}):
            with self.subTest(path):
                fields = {**prompt, "seed": 3, "max_tokens": 40}
                whole = self.server.answer(path, **fields)["choices"][0]
                events = self.server.stream(path, **fields)
                expected = whole["message"]["content"] if path == CHAT else whole["text"]
                self.assertEqual({0: expected}, texts_of(events))
                self.assertEqual(whole["finish_reason"], events[-1]["choices"][0]["finish_reason"])
                self.assertEqual(1, len({event["id"] for event in events}))

    def test_each_of_several_choices_can_be_drawn_again_by_its_seed(self):
        fields = {"prompt": ["Once upon", [1, 2, 3]], "max_tokens": 12}
        both = self.server.answer(TEXT, **fields, n=2, seed=7)
        texts = {choice["index"]: choice["text"] for choice in both["choices"]}
        for seed, indices in (7, (0, 2)), (8, (1, 3)):
            alone = self.server.answer(TEXT, **fields, seed=seed)["choices"]
            self.assertEqual([texts[index] for index in indices], [choice["text"] for choice in alone])
        self.assertEqual(texts, texts_of(self.server.stream(TEXT, **fields, n=2, seed=7)))

    def test_usage_counts_each_prompt_once_and_tells_what_was_cached(self):
        prompt = "A wise owl and a shy mouse went to the river. " * 8
        prompt_tokens = self.server.answer("/tokenize", prompt=prompt)["count"]
        fields = {"prompt": prompt, "max_tokens": 3, "ignore_eos": True}
        self.server.answer(TEXT, **fields)
        usage = self.server.answer(TEXT, **fields, n=3)["usage"]
        self.assertEqual((prompt_tokens, 9), (usage["prompt_tokens"], usage["completion_tokens"]))
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], 16)
        events = self.server.stream(TEXT, **fields, stream_options={"include_usage": True})
        self.assertEqual([], events[-1]["choices"])
        self.assertEqual(prompt_tokens + 3, events[-1]["usage"]["total_tokens"])
        self.assertTrue(all(event["usage"] is None for event in events[:-1]))

    def test_fields_of_sampling_reach_the_engine(self):
        def text(**fields):
            return self.server.answer(TEXT, prompt="Once upon a time", max_tokens=8, **fields)["choices"][0]
        greedy = text(temperature=0)["text"]
        for fields in {"top_k": 1}, {"top_p": 0.001}, {"min_p": 1}:
            self.assertEqual(greedy, text(seed=5, **fields)["text"], fields)
        first = self.server.answer("/tokenize", prompt=greedy)["tokens"][0]
        self.assertNotEqual(greedy, text(temperature=0, logit_bias={str(first): -100})["text"])
        stopped = text(temperature=0, stop=[greedy[5:9], "never"])
        self.assertEqual((greedy[:5], "stop"), (stopped["text"], stopped["finish_reason"]))

    def test_log_probabilities_belong_to_the_tokens_of_the_text(self):
        fields = {"temperature": 0, "max_tokens": 6}
        chat = {"messages": user("Who are you?"), "logprobs": True, "top_logprobs": 2, **fields}
        choice = self.server.answer(CHAT, **chat)["choices"][0]
        tokens = choice["logprobs"]["content"]
        self.assertEqual(choice["message"]["content"], "".join(token["token"] for token in tokens))
        for token in tokens:
            self.assertEqual(2, len(token["top_logprobs"]))
            self.assertEqual(token["token"], token["top_logprobs"][0]["token"])
            self.assertEqual(token["token"], bytes(token["bytes"]).decode())
        streamed = [token for event in self.server.stream(CHAT, **chat)
                    for choice in event["choices"] if choice["logprobs"] for token in choice["logprobs"]["content"]]
        self.assertEqual(tokens, streamed)
        text = self.server.answer(TEXT, prompt="Once upon a time", logprobs=0, **fields)["choices"][0]
        for token, offset in zip(text["logprobs"]["tokens"], text["logprobs"]["text_offset"]):
            self.assertTrue(text["text"][offset:].startswith(token))

    def test_offsets_are_those_of_characters_though_tokens_are_parts_of_them(self):
        fields = {"prompt": "Once", "logprobs": 0, "max_tokens": 30, "seed": 1,
                  "response_format": {"type": "regex", "pattern": "a[\u2603\u2604]{3}bcd"}}
        for stop in [], ["bcx"]:
            with self.subTest(stop):
                choice = self.server.answer(TEXT, **fields, stop=stop)["choices"][0]
                tokens, offsets = choice["logprobs"]["tokens"], choice["logprobs"]["text_offset"]
                parts = [offset for token, offset in zip(tokens, offsets) if "\ufffd" in token]
                self.assertEqual({1, 2, 3}, set(parts), tokens)
                for token, offset in zip(tokens, offsets):
                    if token in ("a", "b", "c", "d", "bc", "cd", "bcd"):
                        self.assertTrue(choice["text"][offset:].startswith(token), (tokens, offsets))
                streamed = [offset for event in self.server.stream(TEXT, **fields, stop=stop)
                            for part in event["choices"] if part["logprobs"] for offset in part["logprobs"]["text_offset"]]
                self.assertEqual(offsets, streamed)

    def test_the_bytes_of_all_tokens_are_the_text(self):
        pattern = {"type": "regex", "pattern": "a[\u2603\u2604]{3}b"}
        choice = self.server.answer(CHAT, messages=user("Hi"), seed=1, logprobs=True, top_logprobs=2,
                                    response_format=pattern)["choices"][0]
        tokens = choice["logprobs"]["content"]
        self.assertIn("\ufffd", "".join(token["token"] for token in tokens))
        joined = b"".join(bytes(token["bytes"]) for token in tokens).decode()
        self.assertTrue(joined.startswith(choice["message"]["content"]), joined)
        for token in tokens:
            self.assertTrue(all(other["bytes"] for other in token["top_logprobs"]), token)

    def test_a_reply_keeps_to_its_response_format(self):
        schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
                  "required": ["name", "age"]}
        formats = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": schema}}
        fields = {"messages": user("Who are you?"), "seed": 5, "response_format": formats}
        whole = self.server.answer(CHAT, **fields, n=4)["choices"]
        for choice in whole:
            self.assertEqual("stop", choice["finish_reason"])
            self.assertEqual(["name", "age"], list(json.loads(choice["message"]["content"])))
        self.assertEqual({0: whole[0]["message"]["content"]}, texts_of(self.server.stream(CHAT, **fields)))
        text = self.server.answer(TEXT, prompt="Once", response_format={"type": "regex", "pattern": "[0-9]{3}"})
        self.assertRegex(text["choices"][0]["text"], "^[0-9]{3}$")
        cut = self.server.answer(CHAT, messages=user("Hi"), max_tokens=3, response_format={"type": "json_object"})
        self.assertTrue(cut["choices"][0]["message"]["content"].startswith("{"))

    def test_a_hundred_streams_at_once_have_the_text_of_each_alone(self):
        def fields(number):
            return {"messages": user(f"Tell me a story about {number} foxes."), "seed": number, "max_tokens": 24}
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            streams = list(pool.map(lambda number: texts_of(self.server.stream(CHAT, **fields(number))), range(100)))
        for number in range(100):
            alone = self.server.answer(CHAT, **fields(number))["choices"][0]["message"]["content"]
            self.assertEqual({0: alone}, streams[number])

    def test_embeddings_are_near_for_like_texts_and_the_same_in_both_encodings(self):
        texts = ["The fox ran into the forest.", "The fox ran to the forest.", "What is 3 plus 4?"]
        for pooling in "last", "mean":
            reply = self.server.answer("/v1/embeddings", input=texts, pooling=pooling)
            vectors = [item["embedding"] for item in reply["data"]]
            self.assertEqual([0, 1, 2], [item["index"] for item in reply["data"]])
            for vector in vectors:
                self.assertAlmostEqual(1, sum(x * x for x in vector), places=4)
            near, far = (sum(a * b for a, b in zip(vectors[0], other)) for other in vectors[1:])
            self.assertGreater(near, far)
            coded = self.server.answer("/v1/embeddings", input=texts[0], pooling=pooling, encoding_format="base64")
            numbers = struct.unpack(f"<{len(vectors[0])}f", base64.b64decode(coded["data"][0]["embedding"]))
            self.assertEqual(vectors[0], list(numbers))
        tokens = self.server.answer("/tokenize", prompt=texts[2])["count"]
        usage = self.server.answer("/v1/embeddings", input=texts[2])["usage"]
        self.assertEqual({"prompt_tokens": tokens, "total_tokens": tokens}, usage)

    def test_the_other_endpoints(self):
        status, _, body = self.server.get("/v1/models")
        self.assertEqual((200, "small"), (status, json.loads(body)["data"][0]["id"]))
        tokens = self.server.answer("/tokenize", prompt="Once upon a time")["tokens"]
        self.assertEqual("Once upon a time", self.server.answer("/detokenize", tokens=tokens)["prompt"])
        self.assertGreater(self.server.answer("/tokenize", messages=user("Hi"))["count"], 2)
        for path in "/health", "/ready", "/version":
            self.assertEqual(200, self.server.get(path)[0], path)
        status, headers, body = self.server.raw("HEAD", "/health")
        self.assertEqual((200, b""), (status, body))
        self.assertGreater(int(headers["Content-Length"]), 0)


class ResidentReplies(Replies):
    """The same from the loop on the device."""
    OPTIONS = ("--scheduler", "resident")


class Responses(OneServer):
    FIELDS = {"input": "Tell me a story.", "temperature": 0, "max_output_tokens": 12}

    def test_a_response_has_the_text_of_the_same_chat(self):
        chat = self.server.answer(CHAT, messages=user("Tell me a story."), temperature=0, max_tokens=12)
        reply = self.server.answer("/v1/responses", **self.FIELDS)
        self.assertEqual(chat["choices"][0]["message"]["content"], reply["output"][0]["content"][0]["text"])
        self.assertEqual(("incomplete", 12), (reply["status"], reply["usage"]["output_tokens"]))

    def test_a_response_says_how_it_was_drawn(self):
        reply = self.server.answer("/v1/responses", **(self.FIELDS | {"temperature": 0.7, "top_p": 0.9}))
        self.assertEqual((0.7, 0.9, 12), (reply["temperature"], reply["top_p"], reply["max_output_tokens"]))
        self.assertEqual((None, {}), (reply["instructions"], reply["metadata"]))
        more = {"instructions": "Be brief.", "metadata": {"topic": "foxes"}}
        reply = self.server.answer("/v1/responses", **(self.FIELDS | more))
        self.assertEqual(more, {key: reply[key] for key in more})

    def test_a_stream_has_numbered_events_and_ends_with_the_whole_response(self):
        body = self.server.raw("POST", "/v1/responses", json.dumps(self.FIELDS | {"stream": True}))[2].decode()
        events = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
        self.assertEqual([line[7:] for line in body.splitlines() if line.startswith("event: ")],
                         [event["type"] for event in events])
        self.assertEqual(list(range(len(events))), [event["sequence_number"] for event in events])
        text = "".join(event.get("delta", "") for event in events)
        self.assertEqual(self.server.answer("/v1/responses", **self.FIELDS)["output"][0]["content"][0]["text"], text)
        self.assertEqual(text, events[-1]["response"]["output"][0]["content"][0]["text"])

    def test_what_is_not_supported_is_refused_by_its_name(self):
        for field, value in (("previous_response_id", "resp-1"), ("tools", [{"type": "function"}]), ("background", True),
                             ("input", []), ("text", {"format": {"type": "grammar"}})):
            status, body = self.server.post("/v1/responses", **(self.FIELDS | {field: value}))
            self.assertEqual(400, status)
            self.assertTrue(body["error"]["param"].startswith(field), body)


class Page(OneServer):
    def test_a_browser_gets_a_page_that_loads_nothing_from_elsewhere(self):
        status, headers, body = self.server.get("/")
        self.assertEqual((200, "text/html; charset=utf-8"), (status, headers["Content-Type"]))
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        page = body.decode()
        self.assertNotRegex(page.replace("http://www.w3.org/2000/svg", ""), "https?://")
        self.assertTrue(page.rstrip().endswith("</html>"))

    def test_the_metrics_that_the_page_reads_are_there(self):
        self.server.answer(TEXT, prompt="Once", max_tokens=3)
        read = set(re.findall(r'"((?:vllm:|attacca_)\w+)"', self.server.get("/")[2].decode()))
        written = self.server.get("/metrics")[2].decode()
        self.assertGreater(len(read), 8)
        for name in read:
            self.assertIn("\n# TYPE " + name + " ", written)

    def test_the_last_steps_can_be_read(self):
        self.server.answer(TEXT, prompt="Once upon", max_tokens=5, ignore_eos=True)
        steps = json.loads(self.server.get("/steps")[2])["steps"]
        self.assertGreaterEqual(len(steps), 5)
        self.assertEqual((1, True, "decode"), (steps[-1]["tokens"], steps[-1]["hit"], steps[-1]["mode"]))


class Packaging(OneServer):
    FOLDER = pathlib.Path(__file__).parents[2] / "packaging"

    def test_every_metric_of_the_dashboard_is_there(self):
        self.server.answer("/v1/completions", prompt="Once", max_tokens=3)
        shown = set(re.findall(r"(?:vllm:|attacca_)\w+", (self.FOLDER / "grafana.json").read_text()))
        written = set(re.findall(r"^((?:vllm:|attacca_)\w+)", self.server.get("/metrics")[2].decode(), re.MULTILINE))
        self.assertGreater(len(shown), 15)
        self.assertEqual(set(), shown - written)

    def test_the_example_of_a_config_is_read_and_shown_with_the_defaults(self):
        done = subprocess.run([BINARY, "serve", "--config", str(self.FOLDER / "serve.yaml"), "--port", "9000",
                               "--print-config"], capture_output=True, text=True, timeout=60)
        self.assertEqual(0, done.returncode, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn("slots: 32", lines)
        self.assertIn("port: 9000", lines)
        self.assertIn("# max-connections: 4096", lines)
        again = pathlib.Path(self.temporary()) / "again.yaml"
        again.write_text(done.stdout)
        same = subprocess.run([BINARY, "serve", "--config", str(again), "--print-config"], capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.stdout, same.stdout)

    def temporary(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name


class Starts(unittest.TestCase):
    def test_a_key_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("# ours\nfirst-key\n\nsecond-key\n")
            with Server("--api-key-file", str(keys), "--name", "story", "--strict") as server:
                self.assertIn(" story ", server.line)
                for key, expected in ("first-key", 200), ("second-key", 200), ("first-ke", 401), ("", 401), \
                        ("first-keyfirst-key", 401), ("# ours", 401):
                    status, _ = server.post("/tokenize", {"Authorization": f"Bearer {key}"}, prompt="x", model="story")
                    self.assertEqual(expected, status, key)
                self.assertEqual(401, server.get("/v1/models")[0])
                self.assertEqual(200, server.get("/health")[0])
                status, reply = server.post(TEXT, {"authorization": "bearer first-key"}, prompt="x", wibble=1)
                self.assertEqual((400, "wibble"), (status, reply["error"]["param"]))
            keys.write_text("\n")
            done = subprocess.run([BINARY, "serve", "--port", "0", "--api-key-file", str(keys)], capture_output=True,
                                  text=True, timeout=PATIENCE_S)
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn("there is no key in it", done.stderr)

    def test_a_port_that_is_taken_is_an_error_before_a_model_is_opened(self):
        with Server() as server:
            done = subprocess.run([BINARY, "serve", "nowhere.gguf", "--port", str(server.port)], capture_output=True,
                                  text=True, timeout=PATIENCE_S)
        self.assertEqual(1, done.returncode)
        self.assertIn(f"port {server.port}: Address already in use", done.stderr)

    def test_a_reply_ends_at_the_limits_of_the_server(self):
        fields = {"prompt": "Once", "max_tokens": 900, "ignore_eos": True}
        for limit in ("--max-tokens", "5"), ("--max-seconds", "0.2"):
            with self.subTest(limit), Server(*limit) as server:
                reply = server.answer(TEXT, **fields)
                self.assertEqual("length", reply["choices"][0]["finish_reason"])
                self.assertLessEqual(reply["usage"]["completion_tokens"], 5 if limit[0] == "--max-tokens" else 899)
                self.assertEqual("length", server.stream(TEXT, **fields)[-1]["choices"][0]["finish_reason"])

    def test_a_server_writes_its_trace_when_it_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "serve.json"
            with Server("--device", "host", "--trace", str(trace), "--trace-level", "graph") as server:
                server.answer(TEXT, prompt="Once", max_tokens=5, ignore_eos=True)
                server.process.terminate()
                self.assertEqual(0, server.process.wait(PATIENCE_S))
            names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
            self.assertGreaterEqual(names.count("decode step") + names.count("mixed step"), 5)

    def test_a_signal_lets_replies_end_and_refuses_new_ones(self):
        for number in signal.SIGTERM, signal.SIGINT:
            with self.subTest(number.name), Server("--slots", "4", "--drain-seconds", "300") as server, \
                    concurrent.futures.ThreadPoolExecutor(16) as pool:
                fields = {"prompt": "Once", "max_tokens": 300, "ignore_eos": True, "temperature": 0}
                idle = server.connection()
                idle.request("GET", "/ready")
                idle.getresponse().read()
                have_begun = threading.Barrier(17)  # four run, and the others wait
                streams = [pool.submit(server.stream, TEXT, lambda: have_begun.wait(PATIENCE_S), **fields) for _ in range(16)]
                have_begun.wait(PATIENCE_S)
                server.process.send_signal(number)
                ends = [stream.result()[-1]["choices"][0]["finish_reason"] for stream in streams]
                self.assertEqual(["length"] * 16, ends)
                self.assertEqual(0, server.process.wait(PATIENCE_S))
                with self.assertRaises(OSError):
                    server.get("/health")
                idle.close()

    def test_what_takes_longer_than_the_drain_is_cut_off_and_logged(self):
        with Server("--drain-seconds", "0", "--log-format", "text") as server, server.socket() as raw:
            body = json.dumps({"prompt": "Once", "n": 128, "max_tokens": 1000, "ignore_eos": True}).encode()
            raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            server.wait_for_metric("vllm:num_requests_running", lambda value: value > 0)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(0, server.process.wait(PATIENCE_S))
            self.assertEqual(b"", raw.recv(100))
            log = server.process.stderr.read()
        self.assertRegex(log, r"POST /v1/completions - in .*, 1 token of prompt, 0 of them cached, \d+ generated, "
                              r"the server gave up\n")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
