#!/usr/bin/env python3
"""Tests of how `attacca serve` speaks HTTP, and of what it refuses: serve_http_test.py <binary>."""
import json
import re
import socket
import subprocess
import sys
import time
import unittest

from serving import BINARY, CHAT, PATIENCE_S, TEXT, OneServer, events_of, texts_of, user


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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
