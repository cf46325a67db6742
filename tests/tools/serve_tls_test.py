#!/usr/bin/env python3
"""Tests of `attacca serve` over TLS: serve_tls_test.py <binary>. It makes its certificates with openssl."""
import http.client
import json
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from serving import BINARY, PATIENCE_S, TEXT, Server

if not shutil.which("openssl"):
    print("openssl is missing: apt-get install openssl")
    sys.exit(77)


def make_pair(folder, name):
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    certificate, key = pathlib.Path(folder) / f"{name}.crt", pathlib.Path(folder) / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out",
                    str(certificate)], check=True, capture_output=True, timeout=PATIENCE_S)
    return certificate, key


class TlsServer(Server):
    def __init__(self, certificate, key, *options):
        self.trusted = ssl.create_default_context(cafile=str(certificate))
        super().__init__("--tls-cert", str(certificate), "--tls-key", str(key), *options)

    def connection(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=self.trusted)

    def name(self):
        """The common name in the certificate of a new connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as plain:
            unverified = ssl._create_unverified_context()
            with unverified.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                text = ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True))
        done = subprocess.run(["openssl", "x509", "-noout", "-subject"], input=text, capture_output=True, text=True,
                              timeout=PATIENCE_S, check=True)
        return done.stdout.strip().rpartition(" ")[2]


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.one, cls.two = make_pair(cls.folder.name, "one"), make_pair(cls.folder.name, "two")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def pair_in_use(self):
        """Copies of the first pair that a test may overwrite."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return [pathlib.Path(shutil.copy(path, folder.name)) for path in self.one]

    def wait_for_name(self, server, name):
        deadline = time.monotonic() + PATIENCE_S
        while server.name() != name:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def test_replies_and_streams_are_those_of_plain_http(self):
        fields = {"prompt": "Once upon a time", "max_tokens": 40, "seed": 3}
        with Server() as plain, TlsServer(*self.one) as secure:
            self.assertIn(" at https://127.0.0.1:", secure.line)
            self.assertEqual(plain.answer(TEXT, **fields)["choices"], secure.answer(TEXT, **fields)["choices"])
            texts = [[event["choices"] for event in server.stream(TEXT, **fields)] for server in (plain, secure)]
            self.assertEqual(*texts)
            connection = secure.connection()
            for _ in range(20):
                connection.request("GET", "/health")
                self.assertEqual(b'{"status":"ok"}', connection.getresponse().read())
            connection.close()
            status, _, _ = secure.raw("POST", TEXT, b"x" * 9_000_000)
            self.assertEqual(413, status)
            status, _, body = secure.raw("POST", "/tokenize", json.dumps({"prompt": "word " * 100_000}))
            self.assertEqual((200, True), (status, json.loads(body)["count"] >= 100_000))

    def test_an_old_client_sees_a_clean_end_of_its_stream(self):
        body = json.dumps({"prompt": "Once", "max_tokens": 4, "stream": True}).encode()
        with TlsServer(*self.one) as server, \
                socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as plain:
            # Without suppress_ragged_eofs an end without close_notify is an error.
            with server.trusted.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as secure:
                secure.sendall(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                text = b""
                while some := secure.recv(65536):
                    text += some
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"))

    def test_who_speaks_plain_http_is_told_so(self):
        with TlsServer(*self.one) as server:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
            connection.request("GET", "/health")
            reply = connection.getresponse()
            self.assertEqual(400, reply.status)
            self.assertIn("https://", json.loads(reply.read())["error"]["message"])
            connection.close()
            for garbage in b"", b"\0" * 100, b"\x16\x03\x01\x00\x05hello", b"hello\r\n\r\n":
                with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as raw:
                    raw.sendall(garbage)
            self.assertEqual(200, server.get("/health")[0])

    def test_a_hangup_reads_certificates_again_and_keeps_connections(self):
        certificate, key = self.pair_in_use()
        with TlsServer(certificate, key, "--log-format", "text") as server:
            self.assertEqual("one", server.name())
            kept = server.connection()
            kept.request("GET", "/health")
            kept.getresponse().read()
            shutil.copy(self.two[0], certificate)
            server.process.send_signal(signal.SIGHUP)  # a certificate without its key
            self.assertIn("the old certificates stay in use", self.line_with(server, "certificates"))
            self.assertEqual("one", server.name())
            shutil.copy(self.two[1], key)
            server.process.send_signal(signal.SIGHUP)
            self.wait_for_name(server, "two")
            kept.request("GET", "/health")
            self.assertEqual(200, kept.getresponse().status)
            kept.close()

    @staticmethod
    def line_with(server, part):
        while part not in (line := server.process.stderr.readline()):
            if not line:
                raise AssertionError(f"no line has {part}")
        return line

    def test_a_hangup_reads_keys_again(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("first-key\n")

            def status_of(key):
                return server.raw("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0]
            with Server("--api-key-file", str(keys), "--log-format", "text") as server:
                self.assertEqual((200, 401), (status_of("first-key"), status_of("second-key")))
                keys.write_text("")
                server.process.send_signal(signal.SIGHUP)
                self.assertIn("the old keys stay in use", self.line_with(server, "keys"))
                self.assertEqual((200, 401), (status_of("first-key"), status_of("second-key")))
                keys.write_text("second-key\n")
                server.process.send_signal(signal.SIGHUP)
                self.line_with(server, "the keys are read again")
                self.assertEqual((401, 200), (status_of("first-key"), status_of("second-key")))

    def test_files_that_cannot_be_used_are_named_before_a_model_is_opened(self):
        certificate, key = map(str, self.one)
        for options, status, part in (
                (["--tls-cert", certificate], 2, "go together"),
                (["--tls-cert", "/nowhere", "--tls-key", key], 1, "--tls-cert /nowhere: No such file"),
                (["--tls-cert", certificate, "--tls-key", certificate], 1, f"--tls-key {certificate}: "),
                (["--tls-cert", certificate, "--tls-key", str(self.two[1])], 1, "is not the key of")):
            done = subprocess.run([BINARY, "serve", "nowhere.gguf", "--port", "0", *options], capture_output=True, text=True,
                                  timeout=PATIENCE_S)
            self.assertEqual((status, ""), (done.returncode, done.stdout), done.stderr)
            self.assertIn(part, done.stderr)

    def test_the_load_generator_checks_the_certificate(self):
        def bench(*options):
            return subprocess.run([BINARY, "bench", "serve", "--url", f"https://127.0.0.1:{server.port}", "--requests", "6",
                                   "--output-tokens", "8", *options], capture_output=True, text=True, timeout=PATIENCE_S)
        with TlsServer(*self.one) as server:
            if "Put load on" not in subprocess.run([BINARY, "bench", "serve", "--help"], capture_output=True, text=True,
                                                   timeout=PATIENCE_S).stdout:
                self.skipTest("built without benchmarks")
            for options in ["--ca-file", str(self.one[0])], ["--insecure"]:
                done = bench(*options)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertIn("6 complete", done.stdout)
            for options in [], ["--ca-file", str(self.two[0])]:
                done = bench(*options)
                self.assertEqual(1, done.returncode, done.stdout)
                self.assertIn("certificate verify failed", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
