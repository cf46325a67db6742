#!/usr/bin/env python3
"""Tests of `attacca roofline`: roofline_test.py <binary>. Only the form of the answers is judged, and no time."""
import html.parser
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BINARY = sys.argv[1]
LIMITS = {"memory", "compute", "launch", "neither", "unknown"}


class Roofline(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)

    def attacca(self, *arguments, given=""):
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        return subprocess.run([BINARY, *arguments], input=given, capture_output=True, text=True, timeout=120, env=environment)

    def read(self, *arguments):
        done = self.attacca("roofline", "--device", "host", "--json", *arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def test_roofs_are_measured_once(self):
        first = self.read()
        for name in ("read_bytes_per_second", "copy_bytes_per_second", "cache_bytes_per_second", "fp32_flops_per_second",
                     "launch_us"):
            self.assertGreater(first[name], 0, name)
        for name in ("node_us", "barrier_us"):
            self.assertGreaterEqual(first[name], 0, f"{name}, what is between two times, may get lost on a busy machine")
        self.assertEqual(first, self.read(), "they are kept")
        files = list((self.folder / "cache/attacca/roofs").iterdir())
        self.assertEqual(1, len(files), files)
        files[0].write_text("nonsense")
        self.assertNotEqual(first, self.read(), "what cannot be read is measured anew")
        self.assertIn("roofs of", self.attacca("roofline", "--device", "host").stdout)

    def test_a_trace_is_placed_and_drawn(self):
        trace, svg, page = (self.folder / name for name in ("run.json", "run.svg", "run.html"))
        done = self.attacca("run", "--plain", "Once", "-n", "4", "--device", "host", "--trace", str(trace))
        self.assertEqual(0, done.returncode, done.stderr)
        found = self.read(str(trace), "--svg", str(svg), "--html", str(page))
        names = {kernel["name"]: kernel for kernel in found["kernels"]}
        self.assertEqual(4 * 8, names["layer # qkv"]["count"])
        self.assertLessEqual({kernel["limit"] for kernel in found["kernels"]}, LIMITS)
        self.assertEqual(sorted((advice["gain_us"] for advice in found["advice"]), reverse=True),
                         [advice["gain_us"] for advice in found["advice"]])
        each = self.read(str(trace), "--each")
        self.assertIn("layer 3 qkv", {kernel["name"] for kernel in each["kernels"]})
        circles = [element for element in xml.etree.ElementTree.parse(svg).iter() if element.get("class") == "kernel"]
        self.assertEqual(len(found["kernels"]), len(circles))
        html.parser.HTMLParser().feed(page.read_text())
        self.assertNotIn("http", page.read_text().replace("http://www.w3.org/2000/svg", ""))
        done = self.attacca("roofline", "-", "--device", "host", given=trace.read_text())
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("advice, and the time that it should save", done.stdout)

    def test_a_command_is_recorded_and_placed(self):
        done = self.attacca("roofline", "--device", "host", "--", "run", "--plain", "Once", "-n", "3")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("layer # qkv", done.stdout)

    def test_a_step_is_placed_and_tried(self):
        found = self.read("step", "--shape", "smollm2-135m", "--layers", "2", "--context", "16", "--try")
        names = {kernel["name"]: kernel for kernel in found["kernels"]}
        self.assertEqual(2, names["layer # gate and up"]["count"])
        tried = {trial["tool"]: trial for trial in found["tried"]}
        self.assertGreater(tried["a graph"]["measured_us"], 0)
        self.assertIn("declares no accesses", tried["concurrent branches"]["why_not"])

    def test_wrong_words_are_refused_with_a_remedy(self):
        empty = self.folder / "empty.json"
        empty.write_text("[]")
        for arguments, status, word in ((("nothing.json",), 1, "cannot read it"), ((str(empty),), 1, "no kernel with a cost"),
                                        (("--try",), 2, "name step, probes or a trace"), ((str(empty), "--try"), 2, "is over"),
                                        (("--batch", "4"), 2, "for `attacca roofline step`"), (("step", "--shape", "gpt"), 2, "gpt"),
                                        (("step", "--svg", "/nowhere/x.svg"), 1, "/nowhere/x.svg"),
                                        (("step", "--shape", "llama-8b", "--batch", "1024", "--context", "131072"), 1, "GiB"),
                                        (("step", "8"), 2, "would be ignored"), (("--json", "run", "x"), 2, "--json"),
                                        (("--device", "tpu"), 2, "tpu")):
            with self.subTest(arguments):
                done = self.attacca("roofline", *(() if "--device" in arguments else ("--device", "host")), *arguments)
                self.assertEqual(status, done.returncode, done.stderr)
                self.assertTrue(done.stderr.startswith("attacca: "), done.stderr)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
