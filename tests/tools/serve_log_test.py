#!/usr/bin/env python3
"""Tests of the log of `attacca serve`, and of the signal after which it reads files again: serve_log_test.py <binary>."""
import json
import signal
import sys
import unittest

from serving import PATIENCE_S, TEXT, Server


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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
