#!/usr/bin/env python3
"""Tests of scripts/chart.py and scripts/overview.py, run as programs on a folder of their own."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
PARAMS = {"shape": "llama-8b", "batch": 1, "context": 512}
STEP = {"name": "decode step", "params": {**PARAMS, "graphs": "full"}, "median": 4000.0, "unit": "µs", "floor": 3000.0,
        "fraction": 0.75}
PEER = {"name": "decode step against a peer", "params": {**PARAMS, "graphs": "full", "peer": "PyTorch & co"},
        "median": 4000.0, "baseline": 6000.0, "unit": "µs"}
SLOW = {**PEER, "params": {**PEER["params"], "peer": "slow"}, "baseline": 40000.0}
RESULT = {"bench": "decode", "device": "NVIDIA H200", "commit": "abc", "date": "2026-11-05",
          "rows": [{**STEP, "params": {**PARAMS, "graphs": "off"}, "median": 1.0},
                   {**STEP, "params": {**PARAMS, "graphs": "full", "batch": 8}, "median": 2.0}, STEP, PEER, SLOW],
          "notes": ["the peer: PyTorch 2"]}
ANCHORS = {"bench": "anchors-decode", "device": "NVIDIA H200", "source": "Measured elsewhere.",
           "rows": [{"name": "other", "version": "1.0", "params": PARAMS, "low": 5000, "high": 5100, "unit": "µs"},
                    {"name": "other", "version": "1.0", "params": {**PARAMS, "batch": 8}, "median": 3, "unit": "µs"}]}
EMPTY = "before\n<!-- chart: h200 llama-8b 1 512 -->\n<!-- end of chart -->\nafter\n"


class Pictures(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.readme = self.root / "README.md"
        self.readme.write_text(EMPTY)
        self.picture = self.root / "docs" / "images" / "decode.svg"

    def run_script(self, name, *arguments):
        return subprocess.run([sys.executable, SCRIPTS / f"{name}.py", "--root", self.root, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def write(self, folder, result):
        path = self.root / "bench" / "results" / folder / "decode.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result))

    def draw(self):
        self.write("h200", RESULT)
        self.write("anchors", ANCHORS)
        done = self.run_script("chart")
        self.assertEqual(0, done.returncode, done.stdout)

    def test_draws_attacca_its_floor_and_its_peers(self):
        self.draw()
        texts = [node.firstChild.data for node in
                 xml.dom.minidom.parseString(self.picture.read_text()).getElementsByTagName("text")]
        self.assertIn("memory floor 3,000 µs", texts)
        self.assertIn("4,000 µs, 75 % of the floor", texts)
        self.assertIn("5,000 – 5,100 µs, 1.25 times attacca", texts)
        self.assertIn("6,000 µs, 1.50 times attacca", texts)
        self.assertEqual(["attacca", "other *", "PyTorch & co"],
                         [text for text in texts if text in ("attacca", "other *", "PyTorch & co", "slow")])

    def test_the_page_has_the_figures_and_where_they_come_from(self):
        self.draw()
        text = self.readme.read_text()
        self.assertTrue(text.startswith("before\n") and text.endswith("<!-- end of chart -->\nafter\n"))
        self.assertIn("![memory floor 3,000 µs; attacca 4,000 µs; other * 5,000 – 5,100 µs; ", text)
        self.assertIn("Not drawn: slow, 40,000 µs, 10.00 times attacca.\n", text)
        self.assertIn("<sub>NVIDIA H200, commit abc, 2026-11-05; the peer: PyTorch 2</sub>\n", text)
        self.assertIn("<sub>\\* other: 1.0. Measured elsewhere.</sub>\n", text)

    def test_check_fails_when_picture_or_page_is_stale(self):
        self.draw()
        self.assertEqual(0, self.run_script("chart", "--check").returncode)
        self.write("h200", {**RESULT, "rows": [{**STEP, "median": 3500.0}]})
        done = self.run_script("chart", "--check")
        self.assertEqual((1, True), (done.returncode, "decode.svg: differs" in done.stdout), done.stdout)
        self.run_script("chart")
        self.readme.write_text(EMPTY)
        done = self.run_script("chart", "--check")
        self.assertEqual((1, True), (done.returncode, "README.md: differs" in done.stdout), done.stdout)

    def test_says_so_where_there_is_no_result(self):
        done = self.run_script("chart")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("No decode step of llama-8b in bench/results/h200 yet", self.readme.read_text())
        self.assertFalse(self.picture.exists())

    def test_the_overview_is_an_svg_that_check_compares(self):
        self.assertEqual(1, self.run_script("overview", "--check").returncode)
        self.assertEqual(0, self.run_script("overview").returncode)
        self.assertEqual(0, self.run_script("overview", "--check").returncode)
        xml.dom.minidom.parse(str(self.root / "docs" / "images" / "overview.svg"))


if __name__ == "__main__":
    unittest.main()
