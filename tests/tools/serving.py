"""What the tests of `attacca serve` share: a server on a port of its own, and a small client. The binary is the first
argument of the test."""
import http.client
import json
import re
import socket
import subprocess
import sys
import time
import unittest

BINARY = sys.argv[1]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PATIENCE_S = 60


class Server:
    """A server on a port of its own."""

    def __init__(self, *options, binary=BINARY):
        quiet = () if "--log-format" in options else ("--log-format", "none")
        self.process = subprocess.Popen([binary, "serve", "--port", "0", *quiet, *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.line = self.process.stdout.readline()
        found = re.match(r"attacca serves (.+) at (https?)://127\.0\.0\.1:(\d+)\n$", self.line)
        if not found:
            self.process.kill()
            raise RuntimeError(f"{self.line!r}: {self.process.communicate()[1]}")
        self.port = int(found[3])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def socket(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def raw(self, method, path, body=None, headers=(), begun=lambda: None):
        """Status, headers and body of a reply on a connection of its own. Calls `begun` before it reads the body."""
        connection = self.connection()
        try:
            connection.request(method, path, body, dict(headers))
            reply = connection.getresponse()
            begun()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def get(self, path):
        return self.raw("GET", path)

    def post(self, path, headers=(), **fields):
        status, _, body = self.raw("POST", path, json.dumps(fields), headers)
        return status, json.loads(body)

    def answer(self, path, **fields):
        status, reply = self.post(path, **fields)
        if status != 200:
            raise AssertionError(f"{status}: {reply}")
        return reply

    def stream(self, path, begun=lambda: None, **fields):
        """The events of a stream; the last one must be [DONE]. Calls `begun` once the server has taken the request."""
        status, headers, body = self.raw("POST", path, json.dumps({**fields, "stream": True}), begun=begun)
        if status != 200 or headers["Content-Type"] != "text/event-stream; charset=utf-8":
            raise AssertionError(f"{status}: {body!r}")
        return events_of(body)

    def metric(self, name):
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.startswith(name + "{"):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name}")

    def wait_for_metric(self, name, is_right):
        deadline = time.monotonic() + PATIENCE_S
        while not is_right(value := self.metric(name)):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is still {value}")
            time.sleep(0.01)


def events_of(body):
    parts = body.decode().split("\n\n")
    if parts[-2:] != ["data: [DONE]", ""]:
        raise AssertionError(parts[-2:])
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def user(text):
    return [{"role": "user", "content": text}]


def texts_of(events):
    """The text of each choice of a stream, by its index."""
    texts = {}
    for event in events:
        for choice in event["choices"]:
            piece = choice["text"] if "text" in choice else choice["delta"].get("content", "")
            texts[choice["index"]] = texts.get(choice["index"], "") + piece
    return texts


class OneServer(unittest.TestCase):
    """Tests that share a server."""
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.OPTIONS)

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()
