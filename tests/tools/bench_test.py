#!/usr/bin/env python3
"""Tests of `attacca bench`: bench_test.py <binary> <1 for a build with benchmarks>."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BINARY, WITH_BENCH = sys.argv[1], sys.argv[2] == "1"
HOST = "overhead-host-dispatch"  # runs on the host, in about a second


def bench(*arguments, **environment):
    return subprocess.run([BINARY, "bench", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, env={**os.environ, **environment})


def has_gpu():
    done = subprocess.run([BINARY, "doctor", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(done.stdout)
    return "cuda" in report["backends"] and bool(report["gpus"])


@unittest.skipIf(WITH_BENCH, "this build has benchmarks")
class WithoutBenchmarks(unittest.TestCase):
    def test_says_how_to_get_them(self):
        for arguments in [], ["list"], ["queue", "--quick"]:
            done = bench(*arguments)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertIn("this build has no benchmarks; `make bench` builds them", done.stderr)
        self.assertIn("make bench", bench("--help").stdout)


@unittest.skipUnless(WITH_BENCH, "ATTACCA_BENCH is off in this build")
class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def names(self):
        lines = bench("list").stdout.splitlines()
        return [line.split()[0] for line in lines if line.startswith("  ")]

    def test_lists_claims_before_overheads_with_their_questions(self):
        done = bench("list")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(done.stdout, bench().stdout)
        names = self.names()
        self.assertIn(HOST, names)
        self.assertIn("overhead-launch", names)
        engine = [name for name in names if name in ("ranks", "ranks-decode", "ranks-device", "ranks-model", "decode",
                                                     "engine", "loop", "plan", "prefill", "quality", "sampling", "structured", "trace")]
        self.assertEqual(engine, names[len(names) - len(engine):])
        names = names[:len(names) - len(engine)]
        self.assertEqual(names, sorted(names, key=lambda name: (name.startswith("overhead-"), name)))
        self.assertRegex(done.stdout, rf"\n  {HOST} +host +what does")
        self.assertRegex(done.stdout, r"\n  overhead-launch +GPU +what does")

    def test_prints_hardware_and_table_and_writes_json(self):
        path = self.folder / "a result.json"
        done = bench(HOST, "--quick", "--device", "host", "--json", str(path), "--commit", "abc")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("commit abc", done.stdout)
        self.assertIn("oneTBB flow graph", done.stdout)
        result = json.loads(path.read_text())
        self.assertEqual((HOST, "abc", True), (result["bench"], result["commit"], result["is_quick"]))
        self.assertIn("oneTBB", result["question"])
        for row in result["rows"]:
            self.assertLessEqual(row["p10"], row["median"])
            self.assertLessEqual(row["median"], row["p90"])
        self.assertNotIn("findings", result)

    def test_the_commit_is_the_one_that_was_built_not_that_of_the_checkout(self):
        for environment in {}, {"GIT_DIR": str(self.folder)}, {"PATH": "/no-such-folder"}:
            commit = re.search("commit ([^,]+)", bench(HOST, "--quick", "--device", "host", **environment).stdout)[1]
            self.assertRegex(commit, r"^([0-9a-f]{7,}(\+dirty)?|unknown)$")
            first = commit if not environment else first
            self.assertEqual(first, commit)

    def test_writes_the_files_of_each_to_a_folder(self):
        self.assertEqual(0, bench(HOST, "--quick", "--json-dir", str(self.folder / "new")).returncode)
        self.assertEqual([f"{HOST}.json"], [path.name for path in (self.folder / "new").iterdir()])

    def test_draws_what_has_a_curve(self):
        path = self.folder / "update.svg"
        done = bench("update", "--quick", "--device", "host", "--svg", str(path))
        self.assertEqual(0, done.returncode, done.stderr)
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertTrue(root.tag.endswith("svg"))
        self.assertIn("set one node", "".join(root.itertext()))

    def test_a_benchmark_without_a_curve_says_so(self):
        done = bench(HOST, "--quick", "--svg", str(self.folder / "none.svg"))
        self.assertEqual(1, done.returncode)
        self.assertIn(f"{HOST}: has no curve to draw", done.stderr)

    def test_a_bare_model_is_for_ranks_alone(self):
        done = bench("ranks", "--model", "--quick", "--device", "host")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("ranks-model", done.stdout)
        done = bench("decode", "--model")
        self.assertEqual(2, done.returncode)
        self.assertIn("--model needs a value", done.stderr)

    def test_an_unknown_name_is_answered_with_those_near_it(self):
        for wrong in "lanch", "launch-":
            done = bench(wrong)
            self.assertEqual(2, done.returncode)
            self.assertIn(f"no benchmark '{wrong}'", done.stderr)
            self.assertIn("overhead-launch", done.stderr)
        self.assertNotIn("near it", bench("something else").stderr)

    def test_list_and_all_stand_alone(self):
        for words in ["list", HOST], [HOST, "list"], ["all", HOST]:
            done = bench(*words)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            self.assertRegex(done.stderr, rf"(list|all) .* stands alone; .*`attacca bench {HOST}` runs {HOST}\n")

    def test_a_shape_runs_on_random_weights_in_every_graph_mode(self):
        if "decode" not in self.names():
            self.skipTest("this build has no engine")
        path = self.folder / "decode.json"
        done = bench("decode", "--device", "host", "--shape", "smollm2-135m", "--batch", "1", "--context", "64",
                     "--graphs", "full,piecewise,off", "--quick", "--json", str(path))
        self.assertEqual(0, done.returncode, done.stderr)
        result = json.loads(path.read_text())
        modes = [row["params"]["graphs"] for row in result["rows"]]
        self.assertEqual(["full", "piecewise", "off"], modes)
        self.assertTrue(all(row["floor"] > 0 for row in result["rows"]))
        self.assertFalse([note for note in result["notes"] if "other bits" in note])

    def test_the_engine_is_measured_beside_its_steps_alone(self):
        if "engine" not in self.names():
            self.skipTest("this build has no engine")
        path = self.folder / "engine.json"
        for choice in (["--model", "small"], ["--shape", "smollm2-135m", "--weights", "q4_0", "--slots", "2"]):
            done = bench("engine", "--device", "host", *choice, "--quick", "--json", str(path))
            self.assertEqual(0, done.returncode, done.stderr)
            rows = json.loads(path.read_text())["rows"]
            self.assertEqual(["output", "load", "first token", "host work a step", "host work a step, nothing running"],
                             [row["name"] for row in rows[:5]])
            self.assertTrue(all(row["median"] > 0 for row in rows))
            for row in rows[::5]:
                self.assertEqual((True, row["baseline"]), (row["is_rate"], row["limit"]))
        self.assertEqual({"shape": "smollm2-135m", "weights": "q4_0", "slots": 2}, rows[0]["params"])

    def test_a_shape_that_is_not_there_and_options_without_one_say_what_to_use(self):
        if "decode" not in self.names():
            self.skipTest("this build has no engine")
        done = bench("decode", "--device", "host", "--shape", "llama-70b")
        self.assertEqual(2, done.returncode)
        self.assertIn("--shape: 'llama-70b' is none of llama-1b", done.stderr)
        done = bench("engine", "--device", "host", "--shape", "smollm2-135m", "--weights", "q3_k")
        self.assertEqual(2, done.returncode)
        self.assertIn("--weights: 'q3_k' is none of f32", done.stderr)
        for arguments in ["prefill", "--tokens", "64"], ["engine", "--weights", "q4_0"]:
            done = bench(*arguments, "--device", "host", "--model", "small")
            self.assertEqual(1, done.returncode)
            self.assertIn("go with --shape", done.stderr)

    def test_json_and_svg_take_one_benchmark(self):
        for names in ["all"], [HOST, "overhead-launch"]:
            for option in "--json", "--svg":
                done = bench(*names, option, str(self.folder / "file"))
                self.assertEqual(2, done.returncode)
                self.assertIn("--json-dir", done.stderr)

    def test_a_folder_that_is_not_there_is_noticed_before_the_run(self):
        done = bench(HOST, "--json", "/no-such-folder/file")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("/no-such-folder/file", done.stderr)

    def test_a_file_that_cannot_be_written_is_noticed_before_the_run(self):
        for option in "--json", "--svg":
            done = bench(HOST, option, str(self.folder))
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn(f"cannot write '{self.folder}': Is a directory", done.stderr)
        self.assertEqual([], list(self.folder.iterdir()))

    def test_a_quick_run_decides_no_gate(self):
        done = bench(HOST, "--quick", "--device", "host")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertNotIn("gates:", done.stdout)

    def test_a_list_of_known_misses_that_cannot_be_used_is_noticed_before_the_run(self):
        path = self.folder / "known.json"
        path.write_text('[{"bench": "queue"}]')
        for file, reason in (path, "entry 1: 'device' must be a text"), (self.folder / "none", "cannot be read"):
            done = bench(HOST, "--quick", "--known-misses", str(file))
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertIn(f"{file}: {reason}", done.stderr)

    def test_a_device_that_does_not_suit_is_an_error_with_the_reason(self):
        done = bench("overhead-launch", "--device", "host")
        self.assertEqual(1, done.returncode)
        self.assertIn("overhead-launch: needs a GPU: it measures calls of CUDA", done.stderr)

    def test_without_a_gpu_what_needs_one_says_so(self):
        if has_gpu():
            self.skipTest("this machine has a GPU")
        for arguments in ["overhead-launch"], ["overhead-launch", "--device", "cuda:0"], ["all", "--device", "cuda:0"]:
            done = bench(*arguments)
            self.assertEqual((1, ""), (done.returncode, done.stdout))
            self.assertRegex(done.stderr, "GPU|CUDA")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
