#!/usr/bin/env python3
"""Tests of `attacca serve` with the embedded model, over the loopback device: serve_test.py <binary>."""
import base64
import concurrent.futures
import json
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from serving import BINARY, CHAT, PATIENCE_S, TEXT, OneServer, Server, events_of, texts_of, user


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


class Log(unittest.TestCase):
    def test_a_line_of_text_has_the_id_that_the_client_gets(self):
        with Server("--log-format", "text") as server:
            mine = server.raw("POST", TEXT, json.dumps({"prompt": "Once", "max_tokens": 3}), {"X-Request-Id": "mine-1"})
            _, headers, _ = server.raw("GET", "/no-such", headers={"X-Request-Id": "not an id!"})
            server.process.send_signal(signal.SIGTERM)
            lines = server.process.communicate(timeout=PATIENCE_S)[1].splitlines()
        self.assertEqual("mine-1", mine[1]["X-Request-Id"])
        self.assertRegex(headers["X-Request-Id"], r"^req-[0-9a-f]{8}-\w+$")
        logged = next(line for line in lines if "mine-1" in line)
        self.assertRegex(logged, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d mine-1 POST /v1/completions 200 in \d+\.\d+ s, "
                                   r"\d+ bytes, 1 token of prompt, 0 of them cached, 3 generated$")
        self.assertTrue(any(headers["X-Request-Id"] in line and " 404 " in line for line in lines), lines)

    def test_a_line_of_json_can_be_read_back(self):
        with Server("--log-format", "json") as server:
            server.answer(TEXT, prompt="Once", max_tokens=2, ignore_eos=True)
            server.process.send_signal(signal.SIGTERM)
            lines = server.process.communicate(timeout=PATIENCE_S)[1].splitlines()
        logged = [json.loads(line) for line in lines]
        self.assertTrue(logged[-1]["message"].startswith("stopping; "), logged[-1])
        line = next(line for line in logged if "path" in line)
        self.assertEqual(("/v1/completions", 200, 2, False),
                         (line["path"], line["status"], line["generated_tokens"], line["client_left"]))


    def test_what_http_refuses_is_logged_and_counted(self):
        with Server("--log-format", "text", "--max-body", "1000") as server:
            status, headers, body = server.raw("POST", TEXT, b"x" * 3000, {"X-Request-Id": "large"})
            self.assertEqual((413, "large"), (status, headers["X-Request-Id"]), body)
            with server.socket() as raw:
                raw.sendall(b"hello\r\n\r\n")
                self.assertRegex(raw.recv(1000), rb"(?s)HTTP/1.1 400 .*X-Request-Id: req-")
            metrics = server.get("/metrics")[2].decode()
            for path, status in (TEXT, 413), ("other", 400):
                self.assertIn(f'attacca_http_replies_total{{path="{path}",status="{status}"}} 1\n', metrics)
            server.process.send_signal(signal.SIGTERM)
            log = server.process.communicate(timeout=PATIENCE_S)[1]
        self.assertRegex(log, r" large POST /v1/completions 413 in ")
        self.assertRegex(log, r" req-\S+ - - 400 in ")

    def test_a_line_counts_the_tokens_of_a_client_that_left(self):
        body = json.dumps({"prompt": "Once", "n": 64, "max_tokens": 1000, "ignore_eos": True, "stream": True}).encode()
        with Server("--log-format", "text") as server:
            with server.socket() as raw:
                raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                while b"data: " not in raw.recv(65536):
                    pass
            while "/v1/completions" not in (line := server.process.stderr.readline()):
                self.assertTrue(line, "the server has ended")
        self.assertRegex(line, r" 200 in .*, 1 token of prompt, 0 of them cached, [1-9]\d* generated, the client left\n")

    def test_without_a_log_nothing_is_written(self):
        with Server("--log-format", "none") as server:
            server.answer(TEXT, prompt="Once", max_tokens=2)
            server.process.send_signal(signal.SIGHUP)
            server.answer(TEXT, prompt="Once", max_tokens=2)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual("", server.process.communicate(timeout=PATIENCE_S)[1])

    def test_a_hangup_with_nothing_to_read_again_changes_nothing(self):
        with Server("--log-format", "text") as server:
            self.assertEqual(200, server.get("/health")[0])  # until it runs, it ignores the signal
            server.process.send_signal(signal.SIGHUP)
            while "no keys and no certificates to read again" not in (line := server.process.stderr.readline()):
                self.assertTrue(line, "the server has ended")
            self.assertEqual(200, server.get("/health")[0])
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(0, server.process.wait(PATIENCE_S))


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


class Refusals(OneServer):
    OPTIONS = ("--max-body", "2000000", "--slots", "2")

    def refused(self, expected, path, param=None, **fields):
        status, reply = self.server.post(path, **fields)
        self.assertEqual((expected, param), (status, reply["error"]["param"]), reply)
        self.assertEqual({"message", "type", "param", "code"}, set(reply["error"]))
        return reply["error"]

    def test_an_error_names_the_field(self):
        hello = user("Hello")
        self.refused(400, CHAT, "messages")
        self.refused(400, CHAT, "messages[1].content", messages=[*hello, {"role": "user", "content": 3}])
        self.refused(400, CHAT, "temperature", messages=hello, temperature="hot")
        self.refused(400, CHAT, "tools", messages=hello, tools=[{"type": "function"}])
        error = self.refused(400, CHAT, "response_format.json_schema.schema", messages=hello, response_format={
            "type": "json_schema", "json_schema": {"schema": {"items": {"not": {}}}}})
        self.assertIn("'#/items/not'", error["message"])
        self.refused(400, TEXT, "prompt", prompt="")
        self.refused(400, TEXT, "stop_token_ids", prompt="x", stop_token_ids=[5] * 101)
        self.refused(400, TEXT, "logit_bias", prompt="x", logit_bias={str(token): 1 for token in range(1025)})
        self.assertEqual("model_not_found", self.refused(404, CHAT, "model", model="gpt", messages=hello)["code"])
        self.refused(404, "/v1/nothing")
        status, _, body = self.server.get(CHAT)
        self.assertEqual(405, status, body)

    def test_a_prompt_that_can_never_fit_is_refused(self):
        long = "word " * 2000
        self.assertIn("1024", self.refused(400, TEXT, "prompt", prompt=long)["message"])
        self.refused(400, CHAT, "messages", messages=user(long))
        self.refused(400, "/v1/responses", "input", input=long)
        self.refused(400, "/v1/embeddings", "input", input=long)

    def test_a_string_of_a_million_letters_is_refused(self):
        self.refused(400, CHAT, "messages", messages=user("a" * 1_000_000))

    def test_malformed_bodies_are_refused_and_the_connection_goes_on(self):
        connection = self.server.connection()
        for body in b"", b"{", b"[]", b'{"messages": [', b"[" * 100_000, b'{"a":' * 100_000, b'{"n": 1, "n": 2}', \
                b'{"prompt": "\xff"}', b'{"prompt": "\\ud800"}', b'{"prompt": "x", "max_tokens": 1e400}', b"\0" * 9:
            with self.subTest(body[:20]):
                connection.request("POST", TEXT, body)
                reply = connection.getresponse()
                self.assertEqual(400, reply.status)
                self.assertEqual("invalid_request_error", json.loads(reply.read())["error"]["type"])
        connection.request("GET", "/health")
        self.assertEqual(200, connection.getresponse().status)
        connection.close()

    def test_an_oversized_body_gets_a_reply(self):
        status, _, body = self.server.raw("POST", TEXT, b"x" * 3_000_000)
        self.assertEqual(413, status)
        self.assertIn("--max-body", json.loads(body)["error"]["message"])
        with self.server.socket() as chunked:
            chunked.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            chunked.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n100000\r\n" + b"x" * 0x100000 + b"\r\n")
            self.assertTrue(chunked.recv(12).endswith(b"413"))

    def test_what_is_no_http_is_refused(self):
        for text in b"hello\r\n\r\n", b"GET /health HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"y" * 40_000:
            with self.server.socket() as raw:
                raw.sendall(text)
                self.assertRegex(raw.recv(12), rb"HTTP/1.1 4(00|31)")

    def test_a_client_may_wait_for_leave_to_send_its_body(self):
        body = json.dumps({"prompt": "Once"}).encode()
        with self.server.socket() as raw:
            raw.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                        % len(body))
            self.assertEqual(b"HTTP/1.1 100 Continue\r\n\r\n", raw.recv(100))
            raw.sendall(body)
            self.assertTrue(raw.recv(100).startswith(b"HTTP/1.1 200 OK"))


class Cors(OneServer):
    OPTIONS = ("--cors", "http://localhost:3000", "--cors", "https://example.org")

    def test_pages_of_the_origins_may_read_replies_and_others_may_not(self):
        body = json.dumps({"prompt": "Once", "max_tokens": 2})
        for origin in "http://localhost:3000", "https://example.org":
            for method, path, sent in ("GET", "/v1/models", None), ("POST", TEXT, body), ("POST", TEXT, "{"):
                _, headers, _ = self.server.raw(method, path, sent, {"Origin": origin})
                self.assertEqual((origin, "Origin"), (headers["Access-Control-Allow-Origin"], headers["Vary"]))
        for origin in ({}, {"Origin": "https://example.com"}, {"Origin": "null"}):
            self.assertNotIn("Access-Control-Allow-Origin", self.server.raw("GET", "/v1/models", headers=origin)[1])

    def test_a_browser_may_ask_before_it_sends(self):
        asks = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type"}
        status, headers, _ = self.server.raw("OPTIONS", CHAT, headers=asks)
        self.assertEqual((200, "https://example.org"), (status, headers["Access-Control-Allow-Origin"]))
        self.assertIn("POST", headers["Access-Control-Allow-Methods"])
        self.assertIn("Authorization", headers["Access-Control-Allow-Headers"])
        self.assertEqual(405, self.server.raw("OPTIONS", CHAT, headers={"Origin": "https://other.org"})[0])

    def test_what_is_no_origin_is_refused(self):
        for origin in "example.org", "https://example.org/", "":
            done = subprocess.run([BINARY, "serve", "--cors", origin], capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual(2, done.returncode, done.stderr)
            self.assertIn("no origin", done.stderr)


class Connections(OneServer):
    OPTIONS = ("--slots", "2", "--max-waiting", "1", "--context", "1024")

    def long_stream(self):
        """The socket of a stream that has begun and takes a while."""
        body = json.dumps({"prompt": "Once", "max_tokens": 1000, "ignore_eos": True, "stream": True}).encode()
        stream = self.server.socket()
        stream.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        self.assertTrue(stream.recv(100).startswith(b"HTTP/1.1 200"))
        return stream

    def all_is_free(self):
        for name in "attacca_pages_in_use", "vllm:num_requests_running", "attacca_sequences_admitted":
            self.server.wait_for_metric(name, lambda value: value == 0)

    def test_one_connection_takes_many_requests(self):
        connection = self.server.connection()
        connection.request("POST", TEXT, json.dumps({"prompt": "Once", "max_tokens": 4, "stream": True}))
        self.assertEqual(200, (reply := connection.getresponse()).status)
        first = connection.sock
        reply.read()
        for _ in range(20):
            connection.request("GET", "/health")
            self.assertEqual(b'{"status":"ok"}', connection.getresponse().read())
        self.assertIs(first, connection.sock)
        connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        bodies = [json.dumps({"prompt": "Once", "max_tokens": count, "ignore_eos": True}).encode()
                  for count in (9, 1, 5, 2, 7)]
        with self.server.socket() as raw:
            raw.sendall(b"".join(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" %
                                 (len(body), body) for body in bodies) +
                        b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            text = b""
            while some := raw.recv(65536):
                text += some
        self.assertEqual([b"9", b"1", b"5", b"2", b"7"], re.findall(rb'"completion_tokens":(\d+)', text))
        self.assertTrue(text.endswith(b'"}') and b'{"version":' in text)

    def test_an_old_client_gets_a_stream_without_chunks(self):
        body = json.dumps({"prompt": "Once", "max_tokens": 4, "stream": True}).encode()
        with self.server.socket() as raw:
            raw.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            text = b""
            while some := raw.recv(65536):
                text += some
        self.assertNotIn(b"chunked", text)
        self.assertEqual(1, len(texts_of(events_of(text.split(b"\r\n\r\n", 1)[1]))))

    def test_a_whole_address_is_taken_for_its_path(self):
        for target in "http://somewhere:80/health?x=/1", "/health":
            with self.server.socket() as raw:
                raw.sendall(f"GET {target} HTTP/1.1\r\nHost: somewhere\r\nConnection: close\r\n\r\n".encode())
                self.assertTrue(raw.recv(65536).startswith(b"HTTP/1.1 200 "))

    def test_a_client_that_leaves_frees_its_pages(self):
        def ends():
            """How many sequences have ended, by reason."""
            return dict(re.findall(r'vllm:request_success_total\{model_name="small",finished_reason="(\w+)"\} (\d+)',
                                   self.server.get("/metrics")[2].decode()))
        for close in (lambda stream: stream.shutdown(socket.SHUT_WR)), socket.socket.close:
            for _ in range(20):  # a reply may be complete before a busy client has left
                before = ends()
                stream = self.long_stream()
                close(stream)
                self.all_is_free()
                stream.close()
                deadline = time.monotonic() + PATIENCE_S
                while (after := ends()) == before:  # they are counted when they have left
                    self.assertLess(time.monotonic(), deadline)
                if after["cancelled"] != before["cancelled"]:
                    break
            self.assertEqual(int(before["cancelled"]) + 1, int(after["cancelled"]))

    def test_too_many_are_told_to_come_back(self):
        for _ in range(20):  # one may have ended before a busy client has asked
            streams = [self.long_stream() for _ in range(3)]
            status, headers, body = self.server.raw("POST", TEXT, json.dumps({"prompt": "Once", "max_tokens": 4}))
            self.assertEqual(200, self.server.get("/health")[0])
            for stream in streams:
                stream.close()
            self.all_is_free()
            if status != 200:
                break
        self.assertEqual((429, "1"), (status, headers["Retry-After"]))
        self.assertEqual("rate_limit_error", json.loads(body)["error"]["type"])
        self.assertEqual(400, self.server.post(TEXT, prompt="Once", n=4)[0])
        self.assertEqual(200, self.server.post(TEXT, prompt="Once", n=3)[0])

    def test_a_client_that_reads_slowly_delays_nobody(self):
        slow = self.long_stream()
        self.assertEqual(200, self.server.post(TEXT, prompt="Once", max_tokens=8)[0])
        self.all_is_free()
        text = b""
        while b"[DONE]" not in text:
            text += slow.recv(65536)
        slow.close()


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
