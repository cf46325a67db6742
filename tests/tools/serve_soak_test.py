#!/usr/bin/env python3
"""Many streams at once, with clients that leave, read slowly or send nonsense: serve_soak_test.py <binary>.

Every stream that is read to its end must have the text of the same request alone. At the end all pages are free and the
server's memory has not grown. ATTACCA_SOAK_STREAMS (200) and ATTACCA_SOAK_SECONDS (20) make it longer; from 1,000 streams
on it also checks what a stream costs: memory while all are open, and the processor time of the server's threads. A build
with sanitizers needs more of both: ATTACCA_SOAK_COSTS=0 leaves that out.
ATTACCA_SOAK_SERVER (a list in JSON) has other options for the server, ATTACCA_SOAK_JSON names a file for the figures.
"""
import asyncio
import json
import os
import random
import re
import resource
import signal
import socket
import sys
import time
import unittest

from serving import TEXT, Server

STREAMS = int(os.environ.get("ATTACCA_SOAK_STREAMS", "200"))
SECONDS = float(os.environ.get("ATTACCA_SOAK_SECONDS", "20"))
OPTIONS = ["--slots", "32", "--max-waiting", str(STREAMS + 100), "--context", "1024", "--pages", "2048"]
OPTIONS = json.loads(os.environ.get("ATTACCA_SOAK_SERVER", json.dumps(OPTIONS)))
RECORD = os.environ.get("ATTACCA_SOAK_JSON")
MEASURES = STREAMS >= 1000 and os.environ.get("ATTACCA_SOAK_COSTS") != "0"
MOST_BYTES = 100 << 20  # that all streams take together, over the idle process
MOST_TOKEN_US = 15      # of the server's threads, for a streamed token
GROWTH_BYTES = 24 << 20
SERVER_THREADS = {"attacca-bodies", "attacca-text", "attacca-log"}  # and the first thread, which has the connections
PROMPTS = ["Once upon a time", "The fox ran", "Tell me a story about an owl.", "What is 3 plus 4?", "A wise old hen"]
FORMATS = ["(red|green|blue) [a-z ]{8,40}", '"[a-z ,.]*"', "([0-9]{1,3}, ){9}end", "[A-Z][a-z]+( [a-z]+)*[.!?]"]


def requests_of(count):
    """Bodies of requests, greedy and seeded, short and long; a fifth has a format."""
    choose = random.Random(7)
    for number in range(count):
        yield {"prompt": choose.choice(PROMPTS) + " " + str(number), "max_tokens": choose.randint(4, 48), "stream": True,
               **({"temperature": 0} if number % 2 else {"seed": number, "temperature": 0.9}),
               **({} if number % 5 else {"response_format": {"type": "regex", "pattern": FORMATS[number // 5 % len(FORMATS)]}})}


class Client:
    """A connection that is kept; all clients run on one thread."""

    def __init__(self, port, receives=None):
        self.port, self.receives, self.writer = port, receives, None

    async def connect(self):
        raw = socket.socket()
        if self.receives:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receives)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.port))
        self.reader, self.writer = await asyncio.open_connection(sock=raw, limit=1 << 20)

    async def send(self, body):
        """Returns the status of the reply."""
        if self.writer is None:
            await self.connect()
        self.writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        self.length = re.search(rb"Content-Length: (\d+)", head)
        return int(head[9:12])

    async def whole(self):
        return await self.reader.readexactly(int(self.length[1]))

    async def chunks(self):
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    def leave(self, abruptly):
        writer, self.writer = self.writer, None
        if abruptly:
            writer.transport.abort()
        else:
            writer.close()


def read_events(text):
    """The text, the ids and the number of events of a stream that must be complete."""
    parts = text.decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""], parts[-2:]
    events = [json.loads(part[6:]) for part in parts[:-2]]
    assert events[-1]["choices"][0]["finish_reason"] in ("stop", "length"), events[-1]
    return "".join(event["choices"][0]["text"] for event in events), {event["id"] for event in events}, len(events)


class Soak:
    def __init__(self, server, bodies, texts):
        self.server, self.bodies, self.texts = server, bodies, texts
        self.counts = dict.fromkeys(("complete", "left", "slow", "malformed", "oversized", "events"), 0)
        self.ids = set()
        self.until = None

    async def run(self, streams, seconds):
        self.until = time.monotonic() + seconds
        await asyncio.gather(*(self.client(number) for number in range(streams)))

    async def client(self, number):
        choose = random.Random(number)
        is_slow = number % 8 == 0
        client = Client(self.server.port, 4096 if is_slow else None)
        turn = number  # so that few clients in a short time do everything, too
        while time.monotonic() < self.until:
            kind, turn = turn % 20, turn + 1
            if kind == 0:
                await self.refused(client, choose.choice([b"{", b'{"prompt": ', b"[" * 5000, b'{"n":1,"n":2}', b"\xff"]))
                self.counts["malformed"] += 1
            elif kind == 1:
                await self.refused(client, json.dumps({"prompt": "word " * 3000}).encode())
                self.counts["oversized"] += 1
            else:
                await self.stream(client, choose, leaves=number % 3 == 1, is_slow=is_slow)
        if client.writer:
            client.leave(abruptly=False)

    async def refused(self, client, body):
        status = await client.send(body)
        assert status == 400, status
        assert "error" in json.loads(await client.whole())

    async def stream(self, client, choose, leaves, is_slow):
        at = choose.randrange(len(self.bodies))
        status = await client.send(self.bodies[at])
        assert status == 200, status
        patience, text = choose.randint(0, 6), b""
        async for chunk in client.chunks():
            text += chunk
            if leaves and (patience := patience - 1) < 0:
                client.leave(abruptly=choose.random() < 0.5)
                self.counts["left"] += 1
                return
            if is_slow:
                await asyncio.sleep(0.05)
        got, ids, events = read_events(text)
        assert got == self.texts[at], f"request {at}: {got!r} is not {self.texts[at]!r}"
        assert len(ids) == 1 and not ids & self.ids, "the events of a stream have one id, which no other stream has"
        self.ids |= ids
        self.counts["complete"] += 1
        self.counts["slow"] += is_slow
        self.counts["events"] += events


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) << 10


def server_seconds(server):
    """Processor time of the threads that serve, by name. Those that compute are left out."""
    seconds, tick = {}, os.sysconf("SC_CLK_TCK")
    for thread in os.listdir(folder := f"/proc/{server.process.pid}/task"):
        with open(f"{folder}/{thread}/stat") as stat:
            name, fields = re.match(r"\d+ \((.*)\) (.*)", stat.read()).groups()
        if int(thread) == server.process.pid:
            name = "connections"
        if name in SERVER_THREADS | {"connections"}:
            used = fields.split()
            seconds[name] = seconds.get(name, 0) + (int(used[11]) + int(used[12])) / tick
    return seconds


async def hold_open(server, count):
    """Opens so many streams, and returns the server's memory while all of them are there."""
    body = json.dumps({"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "stream": True}).encode()
    clients = [Client(server.port) for _ in range(count)]
    statuses = await asyncio.gather(*(client.send(body) for client in clients))
    assert set(statuses) == {200}, set(statuses)
    assert server.metric("attacca_sequences_admitted") == count
    memory = resident_bytes(server)
    for client in clients:
        client.leave(abruptly=True)
    return memory


class Streams(unittest.TestCase):
    def test_many_at_once_lose_and_cross_nothing(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < STREAMS + 100:
            self.skipTest(f"{STREAMS} streams need more open files than {hard}; raise ulimit -n")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        with Server(*OPTIONS) as server:
            fields = list(requests_of(40))
            texts = ["".join(event["choices"][0]["text"] for event in server.stream(TEXT, **one)) for one in fields]
            soak = Soak(server, [json.dumps(one).encode() for one in fields], texts)
            asyncio.run(soak.run(min(STREAMS, 64), SECONDS / 4))  # so that all pages and stacks are touched
            self.all_is_free(server)
            idle = resident_bytes(server)
            asyncio.run(soak.run(STREAMS, SECONDS / 2))
            self.all_is_free(server)
            middle = resident_bytes(server)
            asyncio.run(soak.run(STREAMS, SECONDS / 4))
            self.all_is_free(server)
            end = resident_bytes(server)
            self.report(server, soak, idle, middle, end)
            for kind, count in soak.counts.items():
                self.assertGreater(count, 0, kind)
            self.assertLess(end - middle, GROWTH_BYTES)
            if MEASURES:
                self.check_costs(server, idle)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(0, server.process.wait(60))

    def report(self, server, soak, idle, middle, end):
        counts = ", ".join(f"{count} {kind}" for kind, count in soak.counts.items())
        print(f"{STREAMS} streams at once for {SECONDS:g} s: {counts}; memory {idle >> 20} MiB before, {middle >> 20} MiB and "
              f"{end >> 20} MiB after; {server.metric('vllm:generation_tokens_total'):.0f} tokens", flush=True)
        if RECORD:
            with open(RECORD, "w") as record:
                json.dump({"streams": STREAMS, "seconds": SECONDS, **soak.counts, "idle_bytes": idle, "middle_bytes": middle,
                           "end_bytes": end, "pages_in_use": int(server.metric("attacca_pages_in_use")),
                           "tokens": int(server.metric("vllm:generation_tokens_total"))}, record)

    def check_costs(self, server, idle):
        spent, threads = 0, []
        soak = Soak(server, [json.dumps({"prompt": "Once", "max_tokens": 64, "ignore_eos": True, "stream": True,
                                         "temperature": 0}).encode()], [])
        soak.texts = ["".join(event["choices"][0]["text"] for event in server.stream(TEXT, **json.loads(soak.bodies[0])))]
        before, tokens = server_seconds(server), server.metric("vllm:generation_tokens_total")
        asyncio.run(self.only_streams(soak, STREAMS))
        self.all_is_free(server)
        tokens = server.metric("vllm:generation_tokens_total") - tokens
        for name, seconds in server_seconds(server).items():
            microseconds = (seconds - before.get(name, 0)) * 1e6 / tokens
            spent += microseconds
            threads.append(f"{name} {microseconds:.1f}")
        open_bytes = asyncio.run(hold_open(server, STREAMS)) - idle
        self.all_is_free(server)
        print(f"{STREAMS} open streams take {open_bytes / (1 << 20):.1f} MiB over the idle process; {spent:.1f} us of the server's "
              f"threads for each of {tokens:.0f} streamed tokens ({', '.join(threads)})", flush=True)
        self.assertLess(open_bytes, MOST_BYTES)
        self.assertLessEqual(spent, MOST_TOKEN_US)

    @staticmethod
    async def only_streams(soak, streams):
        choose = random.Random(1)

        async def one():
            client = Client(soak.server.port)
            await soak.stream(client, choose, leaves=False, is_slow=False)
            client.leave(abruptly=False)
        await asyncio.gather(*(one() for _ in range(streams)))

    @staticmethod
    def all_is_free(server):
        for name in "attacca_pages_in_use", "vllm:num_requests_running", "attacca_sequences_admitted":
            server.wait_for_metric(name, lambda value: value == 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
