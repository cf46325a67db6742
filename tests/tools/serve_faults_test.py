#!/usr/bin/env python3
"""Tests of `attacca serve` when things around it break: serve_faults_test.py <binary> [<binary with a device to lose>]."""
import concurrent.futures
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from serving import BINARY, PATIENCE_S, TEXT, Server

LOSES_ITS_DEVICE = sys.argv.pop(2) if len(sys.argv) > 2 else None  # at SIGUSR1
LONG = {"prompt": "Once", "max_tokens": 900, "ignore_eos": True, "temperature": 0}
CLIENT = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
connection.request("POST", "/v1/completions", sys.argv[2])
reply = connection.getresponse()
while some := reply.read1():
    print(len(some), flush=True)
"""


def all_is_free(server):
    for name in "attacca_pages_in_use", "vllm:num_requests_running", "attacca_sequences_admitted":
        server.wait_for_metric(name, lambda value: value == 0)


class Faults(unittest.TestCase):
    def test_a_client_that_is_killed_frees_its_pages(self):
        with Server("--slots", "4") as server:
            clients = [subprocess.Popen([sys.executable, "-c", CLIENT, str(server.port), json.dumps({**LONG, "stream": True})],
                                        stdout=subprocess.PIPE) for _ in range(4)]
            for client in clients:
                client.stdout.readline()  # it streams
            for client in clients:
                client.send_signal(signal.SIGKILL)
                client.communicate(timeout=PATIENCE_S)
            all_is_free(server)
            self.assertEqual(200, server.post(TEXT, prompt="Once", max_tokens=4)[0])

    def test_a_full_disk_for_the_log_costs_no_reply(self):
        with open("/dev/full", "w") as full:
            process = subprocess.Popen([BINARY, "serve", "--port", "0"], stdout=subprocess.PIPE, stderr=full, text=True)
        try:
            port = int(re.search(r":(\d+)\n", process.stdout.readline())[1])
            for _ in range(20):
                raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
                raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                self.assertTrue(raw.recv(100).startswith(b"HTTP/1.1 200"))
                raw.close()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(PATIENCE_S))
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def test_a_full_disk_for_the_step_log_fails_the_requests_and_not_the_server(self):
        with Server("--step-log", "/dev/full") as server:
            status, reply = server.post(TEXT, prompt="Once", max_tokens=600, ignore_eos=True)
            self.assertEqual(500, status)
            self.assertIn("is the disk full?", reply["error"]["message"])
            self.assertEqual(200, server.get("/health")[0])
            all_is_free(server)

    def test_a_signal_under_load_completes_every_reply_that_was_admitted(self):
        with Server("--slots", "8", "--max-waiting", "200", "--drain-seconds", "300") as server, \
                concurrent.futures.ThreadPoolExecutor(64) as pool:
            fields = {"prompt": "Once", "max_tokens": 60, "ignore_eos": True, "temperature": 0}
            expected = server.answer(TEXT, **fields)["choices"][0]["text"]
            have_begun = threading.Barrier(65)
            streams = [pool.submit(server.stream, TEXT, lambda: have_begun.wait(PATIENCE_S), **fields) for _ in range(64)]
            have_begun.wait(PATIENCE_S)
            server.process.send_signal(signal.SIGTERM)
            for stream in streams:
                self.assertEqual(expected, "".join(event["choices"][0]["text"] for event in stream.result()))
            self.assertEqual(0, server.process.wait(PATIENCE_S))

    @unittest.skipUnless(LOSES_ITS_DEVICE, "this build has no command whose device can be lost")
    def test_a_lost_device_answers_everybody_and_ends_the_server_with_1(self):
        for scheduler in "host", "resident":
            with self.subTest(scheduler), \
                    Server("--threads", "1", "--slots", "2", "--scheduler", scheduler, binary=LOSES_ITS_DEVICE) as server, \
                    concurrent.futures.ThreadPoolExecutor(6) as pool:
                self.assertEqual(200, server.post(TEXT, prompt="Once", max_tokens=4)[0])
                server.process.send_signal(signal.SIGUSR1)
                replies = [pool.submit(server.post, TEXT, **LONG) for _ in range(6)]
                refused = 0
                for reply in replies:
                    try:
                        status, body = reply.result()
                        self.assertIn(status, (500, 503), body)
                        self.assertIn("error", body)
                    except (ConnectionError, http.client.HTTPException):
                        refused += 1  # a late one finds the port closed
                self.assertLess(refused, 6)
                self.assertEqual(1, server.process.wait(PATIENCE_S))
                self.assertIn("has lost its device (the faulty device failed a launch); start the server again", server.process.stderr.read())

    def test_hundreds_of_clients_that_never_finish_their_requests_delay_nobody(self):
        with Server() as server:
            slow = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) for _ in range(300)]
            for number, raw in enumerate(slow):
                raw.sendall(b"POST /v1/completions HTTP/1.1\r\n" + (b"Content-Length: 99\r\n\r\n{" if number % 2 else b"X-"))
            began = time.monotonic()
            self.assertEqual(200, server.post(TEXT, prompt="Once", max_tokens=4)[0])
            self.assertLess(time.monotonic() - began, 15)  # their time is 20 s and 60 s
            for raw in slow:
                raw.close()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(0, server.process.wait(PATIENCE_S))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
