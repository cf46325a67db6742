#!/usr/bin/env python3
"""Tests of `attacca bench serve`, against `attacca serve` and against servers that misbehave:
bench_serve_test.py <binary>."""
import json
import pathlib
import re
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest
import xml.etree.ElementTree

from progress import without_progress
from serving import Server

BINARY = sys.argv[1]
PATIENCE_S = 60


def bench(*arguments):
    done = subprocess.run([BINARY, "bench", "serve", *arguments], capture_output=True, text=True, check=False,
                          timeout=PATIENCE_S)
    done.stderr = without_progress(done.stderr)
    return done


def chunked(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def event(**fields):
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
STREAM = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
TEXT = event(choices=[{"delta": {"content": "a"}, "finish_reason": None}])
LAST = event(choices=[{"delta": {}, "finish_reason": "stop"}])
USAGE = event(choices=[], usage={"prompt_tokens": 5, "completion_tokens": 4})
DONE = b"data: [DONE]\n\n"
WHOLE = STREAM + chunked(TEXT, TEXT + LAST, USAGE, DONE)


def reply(status, body, *headers):
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", body]).encode()


# How a fake server answers a completion: the first part of the path chooses. A reply that ends with CLOSE closes the
# connection, one with SILENCE is never finished.
CLOSE, SILENCE = b"(close)", b"(silence)"
COMPLETIONS = {
    "whole": WHOLE,
    "until-closed": HEAD + b"\r\n" + TEXT + LAST + USAGE + DONE + CLOSE,
    "closed-between": WHOLE + CLOSE,
    "after-continue": b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE,
    "without-usage": STREAM + chunked(TEXT, TEXT, LAST, DONE),
    "without-done": STREAM + chunked(TEXT, LAST),
    "cut": STREAM + chunked(TEXT)[:-5] + CLOSE,
    "cut-head": b"HTTP/1.1 200 OK\r\nContent-" + CLOSE,
    "nothing": CLOSE,
    "broken": reply(500, '{"error": {"message": "the engine \\u001b[31m failed"}}'),
    "busy": reply(429, '{"error": {"message": "come back"}}', "Retry-After: 9"),
    "garbage": b"\x00\xff\r\n\r\nwhat?" + CLOSE,
    "bad-chunk": STREAM + b"zz\r\nabc\r\n" + CLOSE,
    "page": reply(200, "<html></html>", "Content-Type: text/html"),
    "no-json": STREAM + chunked(b"data: {oops\n\n", DONE),
    "error-event": STREAM + chunked(TEXT, event(error={"message": "lost"})),
    "endless-line": STREAM + chunked(b"data: " + b"x" * (2 << 20)),
    "endless-header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 17) + CLOSE,
    "silent": STREAM + chunked(TEXT)[:-5] + SILENCE,
}
MODELS = {
    "locked": reply(401, '{"error": {"message": "no key"}}'),
    "lost": reply(404, "not here"),
    "nameless": reply(200, '{"data": []}'),
    "no-models": reply(200, "]["),
    "hangs-up": CLOSE,
}


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while (line := self.rfile.readline().decode()).strip():
            path = line.split()[1]
            length = 0
            while (header := self.rfile.readline().decode().lower()).strip():
                if header.startswith("content-length:"):
                    length = int(header.split(":")[1])
                if header.startswith("authorization:"):
                    self.server.keys.add(header.split(":")[1].strip())
            body = self.rfile.read(length)
            answer = self.answer_to(path, body)
            self.wfile.write(answer.removesuffix(CLOSE).removesuffix(SILENCE))
            if answer.endswith(SILENCE):
                self.rfile.read(1)
            if answer.endswith((CLOSE, SILENCE)):
                return

    def answer_to(self, path, body):
        kind = path.split("/")[1]
        if path.endswith("/v1/models"):
            return MODELS.get(kind, reply(200, '{"data": [{"id": "fake"}]}'))
        if path.endswith("/v1/chat/completions"):
            self.server.bodies.append(json.loads(body))
            return COMPLETIONS[kind]
        if path == "/whole/tokenize":  # two tokens a word, and three around them
            words = json.loads(body)["messages"][0]["content"].split()
            return reply(200, json.dumps({"count": 2 * len(words) + 3}))
        return reply(404, "not here")


class FakeServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies, self.keys = [], set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that leaves is part of the test


class WithFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.json = self.folder / "load.json"

    def figures(self, url, *options):
        """The JSON and the output of a run in which at least one request is complete."""
        done = bench("--url", url, "--json", str(self.json), *options)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return json.loads(self.json.read_text()), done.stdout


class AgainstAttacca(WithFiles):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--slots", "16")
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def check(self, result):
        """What holds for any result: every request is complete, and the figures follow from the requests."""
        requests = result["requests"]
        self.assertEqual((len(requests), 0, []), (result["complete"], result["failed"], result["failures"]))
        for one in requests:
            self.assertLessEqual(0, one["due"])
            self.assertLessEqual(one["due"], one["sent"])
            self.assertLess(one["sent"], one["first"])
            self.assertLess(one["first"], one["end"])
            self.assertLessEqual(one["texts"], one["output_tokens"])
        for key in "prompt_tokens", "cached_tokens", "output_tokens":
            self.assertEqual(result[key], sum(one[key] for one in requests))
        seconds = result["seconds"]
        self.assertEqual(seconds, max(one["end"] for one in requests))
        self.assertAlmostEqual(result["requests_per_second"], len(requests) / seconds)
        self.assertAlmostEqual(result["output_tokens_per_second"], result["output_tokens"] / seconds)
        self.assertAlmostEqual(result["e2e_ms"]["mean"],
                               1000 * sum(one["end"] - one["due"] for one in requests) / len(requests))
        self.assertAlmostEqual(result["ttft_ms"]["mean"],
                               1000 * sum(one["first"] - one["due"] for one in requests) / len(requests))
        for name in "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms":
            self.assertLessEqual(0, result[name]["p50"])
            self.assertLessEqual(result[name]["p50"], result[name]["p90"])
            self.assertLessEqual(result[name]["p90"], result[name]["p99"])

    def test_every_request_of_many_at_once_completes_and_the_server_counts_the_same_tokens(self):
        before = self.server.metric("vllm:generation_tokens_total")
        result, table = self.figures(self.url, "--concurrency", "64", "--requests", "96", "--prompt-tokens", "40",
                                     "--output-tokens", "8", "--ignore-eos", "--target-ttft", "1e6",
                                     "--target-tpot", "1e-3")
        self.check(result)
        self.assertEqual(96 * 8, result["output_tokens"])
        self.assertEqual(96 * 8, self.server.metric("vllm:generation_tokens_total") - before)
        self.assertAlmostEqual(40, result["prompt_tokens"] / 96, delta=4)
        self.assertEqual(("small", "chat", 64), (result["model"], result["endpoint"], result["load"]["concurrency"]))
        self.assertEqual(0, result["goodput"]["requests"])
        for line in "TTFT", "TPOT", "ITL", "E2E":
            self.assertRegex(table, rf"\n{line} +(\d+\.?\d* *){{4}}\n")
        self.assertIn("96 complete", table)
        self.assertIn("8.000 tokens each", table)
        self.assertIn("goodput   0.000 requests/s with TTFT <= 1e+06 ms and TPOT <= 0.001 ms: 0 of 96", table)

    def test_a_rate_is_kept_with_lengths_shared_prefixes_and_a_picture(self):
        svg = self.folder / "timeline.svg"
        options = ["--rate", "20", "--seconds", "1", "--endpoint", "completions", "--prompt-tokens", "50-80",
                   "--output-tokens", "normal:8,2", "--shared-prefix", "40", "--hog", "1", "--seed", "3",
                   "--ignore-eos", "--svg", str(svg)]
        first, _ = self.figures(self.url, *options)
        self.check(first)
        self.assertTrue(all(one["due"] < 1 for one in first["requests"]))
        self.assertGreater(first["cached_tokens"], 0.3 * first["prompt_tokens"])
        self.assertTrue(all(45 <= one["prompt_tokens"] <= 88 for one in first["requests"]))
        texts = "".join(xml.etree.ElementTree.parse(svg).getroot().itertext())
        self.assertIn("at 20 a second (poisson)", texts)
        again, _ = self.figures(self.url, *options)
        self.assertEqual([(one["due"], one["prompt_tokens"]) for one in first["requests"]],
                         [(one["due"], one["prompt_tokens"]) for one in again["requests"]])

    def test_a_trace_is_replayed(self):
        trace = self.folder / "trace.jsonl"
        trace.write_text('{"at": 0.2, "prompt_tokens": 60, "output_tokens": 5}\n'
                         '{"at": 0, "prompt_tokens": 20, "output_tokens": 3}\n')
        result, _ = self.figures(self.url + "/v1", "--trace", str(trace), "--ignore-eos", "--model", "small")
        self.check(result)
        self.assertEqual([(0, 3), (0.2, 5)], [(one["due"], one["output_tokens"]) for one in result["requests"]])

    def test_what_the_server_refuses_is_said_in_its_words(self):
        done = bench("--url", self.url, "--model", "other", "--requests", "1")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stdout, r"0 complete[\s\S]*failed    1: HTTP 404: .*'other'")
        done = bench("--url", self.url, "--prompt-tokens", "3000", "--requests", "1")
        self.assertRegex(done.stdout, r"failed    1: HTTP 400: the prompt has \d+ tokens")


class AgainstOthers(WithFiles):
    @classmethod
    def setUpClass(cls):
        cls.server = FakeServer()
        cls.root = f"http://127.0.0.1:{cls.server.server_address[1]}"

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def test_streams_of_any_form_are_read(self):
        for kind in "whole", "until-closed", "closed-between", "after-continue", "without-usage", "without-done":
            with self.subTest(kind):
                result, table = self.figures(f"{self.root}/{kind}/v1", "--requests", "9", "--concurrency", "2")
                self.assertEqual((9, 0), (result["complete"], result["failed"]), table)
                has_usage = not kind.startswith("without")
                texts = 1 if kind == "without-done" else 2
                self.assertEqual(9 * (4 if has_usage else texts), result["output_tokens"])
                self.assertEqual(not has_usage, "9 replies had no usage" in table)
                self.assertEqual(kind == "whole", "/tokenize did not answer" not in table)

    def test_each_misbehaviour_is_counted_by_its_reason(self):
        reasons = {"cut": "the connection closed early", "cut-head": "the connection closed early",
                   "nothing": "the connection closed early", "broken": "HTTP 500", "busy": "HTTP 429",
                   "garbage": "the reply is no HTTP: bad version", "bad-chunk": "the reply is no HTTP: bad chunk",
                   "page": "the reply is no stream of events", "no-json": "an event is no JSON",
                   "error-event": "an error in the stream", "endless-line": "an event is too large",
                   "endless-header": "the reply is no HTTP: header limit exceeded", "silent": "no byte for 2 s"}
        self.assertEqual(set(reasons), {kind for kind in COMPLETIONS if kind not in (
            "whole", "until-closed", "closed-between", "after-continue", "without-usage", "without-done")})
        for kind, reason in reasons.items():
            with self.subTest(kind):
                done = bench("--url", f"{self.root}/{kind}/v1", "--requests", "3", "--concurrency", "3", "--json",
                             str(self.json), "--timeout", "2" if kind == "silent" else "30")
                self.assertEqual((1, ""), (done.returncode, done.stderr))
                result = json.loads(self.json.read_text())
                self.assertEqual([(reason, 3)], [(one["reason"], one["count"]) for one in result["failures"]])
                self.assertIn(f"failed    3: {reason}", done.stdout)
                self.assertNotIn("\033", done.stdout)

    def test_requests_say_what_was_asked_for(self):
        self.server.bodies.clear()
        keys = self.folder / "keys"
        keys.write_text("# ours\n\nsesame\n")
        self.figures(f"{self.root}/whole/v1", "--requests", "2", "--prompt-tokens", "43", "--output-tokens", "7",
                     "--ignore-eos", "--api-key-file", str(keys))
        for body in self.server.bodies:
            words = body.pop("messages")[0]["content"].split()
            self.assertEqual(20, len(words))
            self.assertEqual({"model": "fake", "max_tokens": 7, "stream": True, "ignore_eos": True,
                              "stream_options": {"include_usage": True}}, body)
        self.assertIn("bearer sesame", self.server.keys)

    def test_a_server_that_cannot_be_used_is_an_error_with_the_remedy(self):
        for kind, words in {"locked": "wants a key (HTTP 401: no key); give --api-key-file",
                            "lost": "GET /lost/v1/models has status 404 (not here); is this the address",
                            "nameless": "names no model", "no-models": "names no model",
                            "hangs-up": "the connection closed early; start a server there"}.items():
            done = bench("--url", f"{self.root}/{kind}/v1")
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn(words, done.stderr)


class Usage(WithFiles):
    def refusal(self, *options, status=2):
        done = bench(*options)
        self.assertEqual((status, ""), (done.returncode, done.stdout))
        return done.stderr

    def test_an_address_that_cannot_be_used_is_named(self):
        self.assertIn("--url is missing", self.refusal())
        self.assertIn("--url 'ftp://x'", self.refusal("--url", "ftp://x"))
        self.assertIn("no host 'no-such-host.invalid'", self.refusal("--url", "http://no-such-host.invalid", status=1))
        with FakeServer() as closed:
            port = closed.server_address[1]
            closed.shutdown()
        self.assertIn("cannot connect: Connection refused; start a server there",
                      self.refusal("--url", f"http://127.0.0.1:{port}", "--model", "x", status=1))

    def test_options_that_contradict_each_other_are_refused(self):
        url = ["--url", "http://127.0.0.1:1"]
        for options, words in {
                ("--rate", "2", "--concurrency", "3"): "--rate 2 and --concurrency 3 contradict each other",
                ("--trace", "f", "--rate", "2"): "--trace and --rate contradict each other",
                ("--trace", "f", "--prompt-tokens", "2"): "--trace and --prompt-tokens contradict each other",
                ("--arrival", "burst"): "--arrival burst goes with --rate",
                ("--api-key", "a", "--api-key-file", "b"): "--api-key and --api-key-file contradict each other",
                ("--shared-prefix", "200", "--prompt-tokens", "60-100"): "--shared-prefix 200 is longer than",
                ("--prompt-tokens", "9-3"): "--prompt-tokens: '9-3' is no number of tokens",
                ("--rate", "0"): "--rate: '0' is not a number above 0",
                ("--rat", "2"): "no option '--rat'; the nearest is --rate"}.items():
            error = self.refusal(*url, *options)
            self.assertIn(words, error)
            self.assertIn("See attacca bench serve --help.", error)

    def test_files_are_tried_before_the_run(self):
        url = ["--url", "http://127.0.0.1:1"]
        for option in "--json", "--svg":
            self.assertIn("cannot write '/no-such-folder/f'", self.refusal(*url, option, "/no-such-folder/f", status=1))
        trace = self.folder / "trace"
        trace.write_text('{"at": 0}\n')
        self.assertIn(f"--trace {trace}: line 1: 'prompt_tokens' must be a number",
                      self.refusal(*url, "--trace", str(trace), status=1))
        keys = self.folder / "keys"
        keys.write_text("# none\n")
        self.assertIn("there is no key in it", self.refusal(*url, "--api-key-file", str(keys), status=1))
        self.assertIn("HTTP cannot send it", self.refusal(*url, "--api-key", "a\r\nX: y", status=1))

    def test_it_has_help_of_its_own_and_is_named_in_the_list(self):
        self.assertTrue(re.search(r"--shared-prefix UINT", bench("--help").stdout))
        listed = subprocess.run([BINARY, "bench", "list"], capture_output=True, text=True, check=True).stdout
        self.assertIn("attacca bench serve --url", listed)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
