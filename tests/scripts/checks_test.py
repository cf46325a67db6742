#!/usr/bin/env python3
"""Tests of scripts/checks.py and scripts/gpu-check.sh, on a folder of their own with made-up tests and tools."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
EMPTY = "before\n<!-- checks: h200 -->\n<!-- end of checks -->\nafter\n"
JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="5" failures="2" disabled="1" skipped="1">
  <testcase name="Graph.runs/cuda" classname="Graph.runs/cuda" time="0.1" status="run"/>
  <testcase name="Graph.breaks/cuda" classname="x" time="0.1" status="fail"><failure message=""/></testcase>
  <testcase name="Graph.is_not_built/cuda" classname="x" time="0" status="notrun">
    <skipped message="Unable to find executable"/></testcase>
  <testcase name="Model.is_not_here/cuda" classname="x" time="0" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>
  <testcase name="Graph.is_off/cuda" classname="x" time="0" status="disabled"/>
</testsuite>
"""


def gtest_result(*tests):
    """gtest's JSON for tests of the suite SmallDevice, each a name and "COMPLETED", "SKIPPED", "FAILED" or "SUPPRESSED"."""
    def test(name, result):
        fields = {"name": name, "status": "NOTRUN" if result == "SUPPRESSED" else "RUN",
                  "result": "COMPLETED" if result == "FAILED" else result}
        return {**fields, "failures": [{"failure": "no"}]} if result == "FAILED" else fields
    return json.dumps({"testsuites": [{"name": "SmallDevice", "testsuite": [test(*each) for each in tests]}]})


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.page = self.root / "docs" / "benchmarks.md"
        self.page.parent.mkdir()
        self.page.write_text(EMPTY)

    def checks(self):
        return json.loads((self.root / "bench" / "results" / "h200" / "checks.json").read_text())


class Checks(Folder):
    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPTS / "checks.py", "--root", self.root, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def record(self, what, source, commit="abc1234"):
        return self.run_script(what, source, "--gpu", "h200", "--device", "NVIDIA H200", "--driver", "580.1", "--commit", commit)

    def record_tests(self, text=JUNIT, **options):
        path = self.root / "tests.xml"
        path.write_text(text)
        return self.record("tests", path, **options)

    def record_tool(self, what, binaries, **options):
        """`binaries`: name to output, result or None, and the names of its tests."""
        folder = self.root / what
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, (output, result, tests) in binaries.items():
            (folder / f"{name}.log").write_text(output)
            (folder / f"{name}.list").write_text("\n".join(tests))
            if result is not None:
                (folder / f"{name}.json").write_text(result)
        return self.record(what, folder, **options)

    def test_tests_are_recorded_by_name_with_their_origin(self):
        done = self.record_tests()
        self.assertEqual(1, done.returncode, done.stdout)
        tests = self.checks()["tests"]
        self.assertEqual(["Graph.runs/cuda"], tests["passed"])
        self.assertEqual(["Graph.breaks/cuda", "Graph.is_not_built/cuda"], tests["failed"])
        self.assertEqual(["Model.is_not_here/cuda", "Graph.is_off/cuda"], tests["skipped"])
        self.assertEqual(("NVIDIA H200", "580.1", "abc1234"), (tests["device"], tests["driver"], tests["commit"]))
        self.assertRegex(tests["date"], r"^\d{4}-\d\d-\d\d$")

    def test_a_run_without_failures_succeeds(self):
        good = JUNIT.replace('status="fail"', 'status="run"').replace('<failure message=""/>', "")
        self.assertEqual(1, self.record_tests(good).returncode)
        self.assertEqual(0, self.record_tests(good.replace("Unable to find executable", "SKIP_RETURN_CODE=77")).returncode)

    def test_a_tool_is_recorded_with_its_binaries_their_tests_and_errors(self):
        result = gtest_result(("adds/cuda", "COMPLETED"), ("waits/cuda", "SKIPPED"), ("updates/cuda", "SUPPRESSED"))
        done = self.record_tool("memcheck", {"device_tests": ("========= ERROR SUMMARY: 0 errors\n", result, [])})
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertEqual([{"binary": "device_tests", "errors": 0, "is_finished": True, "passed": ["SmallDevice.adds/cuda"],
                           "failed": [], "skipped": ["SmallDevice.waits/cuda"]}], self.checks()["memcheck"]["binaries"])

    def test_errors_and_hazards_are_counted_and_fail(self):
        result = gtest_result(("adds/cuda", "COMPLETED"))
        summaries = {"memcheck": "========= ERROR SUMMARY: 3 errors\n",
                     "synccheck": "========= ERROR SUMMARY: 1 error\n",
                     "racecheck": "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n"}
        for what, summary in summaries.items():
            self.assertEqual(1, self.record_tool(what, {"device_tests": (summary, result, [])}).returncode)
        counts = {what: self.checks()[what]["binaries"][0]["errors"] for what in summaries}
        self.assertEqual({"memcheck": 3, "synccheck": 1, "racecheck": 2}, counts)

    def test_a_test_that_fails_under_a_tool_fails(self):
        result = gtest_result(("adds/cuda", "FAILED"))
        done = self.record_tool("memcheck", {"device_tests": ("========= ERROR SUMMARY: 0 errors\n", result, [])})
        self.assertEqual(1, done.returncode)
        self.assertEqual(["SmallDevice.adds/cuda"], self.checks()["memcheck"]["binaries"][0]["failed"])

    def test_a_binary_that_crashed_failed_with_all_of_its_tests(self):
        done = self.record_tool("memcheck", {"device_tests": ("Segmentation fault\n", None, ["SmallDevice.adds/cuda"])})
        self.assertEqual(1, done.returncode)
        binary = self.checks()["memcheck"]["binaries"][0]
        self.assertEqual((None, False, ["SmallDevice.adds/cuda"]),
                         (binary["errors"], binary["is_finished"], binary["failed"]))
        self.run_script("page")
        self.assertIn("| memcheck, 1 test binaries | 1 | 1 | 0 | unknown |", self.page.read_text())

    def test_a_tool_that_found_no_test_fails(self):
        self.assertEqual(1, self.record_tool("initcheck", {}).returncode)

    def test_a_section_leaves_the_others_with_their_commits(self):
        self.record_tests(commit="aaaaaaa")
        result = gtest_result(("adds/cuda", "COMPLETED"))
        self.record_tool("memcheck", {"device_tests": ("========= ERROR SUMMARY: 0 errors\n", result, [])}, commit="bbbbbbb")
        self.record_tests(JUNIT.replace("Graph.runs", "Graph.goes"), commit="ccccccc")
        checks = self.checks()
        self.assertEqual(["tests", "memcheck"], list(checks))
        self.assertEqual(("ccccccc", "bbbbbbb"), (checks["tests"]["commit"], checks["memcheck"]["commit"]))
        self.assertEqual(["Graph.goes/cuda"], checks["tests"]["passed"])

    def test_the_page_has_a_line_for_each_and_names_what_failed_and_was_skipped(self):
        self.record_tests()
        result = gtest_result(("adds/cuda", "COMPLETED"), ("waits/cuda", "COMPLETED"))
        self.record_tool("racecheck", {"device_tests": ("========= RACECHECK SUMMARY: 0 hazards displayed\n", result, [])})
        self.assertEqual(1, self.run_script("page", "--check").returncode)
        self.assertEqual(0, self.run_script("page").returncode)
        text = self.page.read_text()
        self.assertIn("| the tests with the label gpu | 3 | 2 | 2 |  | abc1234 | ", text)
        self.assertIn("| racecheck, 1 test binaries | 2 | 0 | 0 | 0 | abc1234 | ", text)
        self.assertIn("Failed: `Graph.breaks/cuda`, `Graph.is_not_built/cuda`.\n", text)
        self.assertIn("Skipped: `Model.is_not_here/cuda`, `Graph.is_off/cuda`.\n", text)
        self.assertIn("<sub>NVIDIA H200, driver 580.1</sub>\n", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("<!-- end of checks -->\nafter\n"))
        self.assertEqual(0, self.run_script("page", "--check").returncode)

    def test_the_page_says_so_where_nothing_was_checked(self):
        self.assertEqual(0, self.run_script("page").returncode)
        self.assertIn("No checks in bench/results/h200 yet", self.page.read_text())


# Stand-ins for the programs that gpu-check.sh calls. Each notes that it ran.
PROGRAMS = {
    "bin/nvidia-smi": 'case $1 in *driver*) echo 580.1 ;; *) echo "NVIDIA H200" ;; esac',
    "bin/nvcc": "",
    "bin/ctest": f"""while [[ $1 != --output-junit ]]; do shift; done
cat >"$2" <<'END'
{JUNIT}END
exit 8""",
    "bin/compute-sanitizer": """while [[ $1 != *_tests ]]; do shift; done
"$@"
echo "========= ERROR SUMMARY: ${SANITIZER_ERRORS:-0} errors"
[[ ${SANITIZER_ERRORS:-0} == 0 ]]""",
    "build/cuda/tests/device_tests": f"""for word; do
  case $word in
    --gtest_list_tests) printf 'Running main() from gtest\\nSmallDevice.\\n  adds/cuda  # GetParam() = x\\n' ;;
    --gtest_output=json:*) cat >"${{word#*json:}}" <<'END'
{gtest_result(("adds/cuda", "COMPLETED"))}
END
    ;;
  esac
done""",
    "build/cuda/tests/relacy_tests": "",
    "build/cuda/tests/trace_tests": "",
    "build/cuda/tests/comm_transport": 'echo "transport $*, half of the GPU: ${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE:-no}"',
    "bin/nvidia-cuda-mps-control": 'cat >> "$(dirname "$0")/../mps"',
    "build/cuda/bin/attacca": """case $* in
  doctor) printf 'ranks NCCL  NCCL %s\\nranks SHMEM %s\\n' "${NCCL:-2.32.3}" "${SHMEM:-NVSHMEM 3.8.0}" && exit ;;
  run*--ranks*) [[ ${RANK:-0} != 0 ]] || echo "${STORY_OF_TWO:-once}" && exit "${STATUS_OF_TWO:-0}" ;;
  run*) echo once ;;
esac
echo "$*" >>benchmarks
exit ${BENCH_STATUS:-0}""",
}


class GpuCheck(Folder):
    def setUp(self):
        super().setUp()
        (self.root / "scripts").mkdir()
        for name in "run_record.py", "instruments_record.py", "serve_record.py":
            (self.root / "scripts" / name).write_text("import sys\nprint(*sys.argv)\n")
        for name in ("gpu-check.sh", "under_mps.sh", "preset.sh", "checks.py", "tables.py", "measurements.py", "performance.py",
                     "chart.py", "svg.py"):
            shutil.copy(SCRIPTS / name, self.root / "scripts" / name)
        (self.root / "tests" / "comm").mkdir(parents=True)
        shutil.copy(SCRIPTS.parent / "tests" / "comm" / "launch.py", self.root / "tests" / "comm")
        (self.root / "tests" / "comm" / "gpu_faults_test.py").write_text("import os, sys\nprint(*sys.argv)\n"
                                                                        "sys.exit(int(os.environ.get('FAULTS_STATUS', 0)))\n")
        for name, body in PROGRAMS.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/usr/bin/env bash\n{body}\n")
            path.chmod(0o755)
        (self.root / "README.md").write_text("<!-- claims: h200 --><!-- end of claims -->\n<!-- chart: h200 a 1 1 -->\n"
                                             "<!-- end of chart -->\n")
        (self.root / "docs" / "measurements.md").write_text("<!-- measurements: h200 -->\n<!-- end of measurements -->\n")
        (self.root / "docs" / "performance.md").write_text("<!-- performance: a@h200 -->\n<!-- end of performance -->\n")

    def run_check(self, *parts, **environment):
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return subprocess.run([self.root / "scripts" / "gpu-check.sh", *parts], env={**os.environ, "PATH": path, **environment},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def test_a_failure_does_not_stop_the_later_parts_and_shows_in_the_exit_status(self):
        done = self.run_check("test", "memcheck", "bench", "abc1234")
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn("gpu-check: failed, see above: test\n", done.stdout)
        checks = self.checks()
        self.assertEqual(["Graph.runs/cuda"], checks["tests"]["passed"])
        self.assertEqual([("device_tests", ["SmallDevice.adds/cuda"], 0)],
                         [(each["binary"], each["passed"], each["errors"]) for each in checks["memcheck"]["binaries"]])
        self.assertEqual("abc1234", checks["memcheck"]["commit"])
        self.assertIn("bench all --device cuda:0", (self.root / "benchmarks").read_text())
        self.assertIn("| memcheck, 1 test binaries | 1 | 0 | 0 | 0 | abc1234 |", self.page.read_text())

    def test_parts_that_pass_succeed(self):
        done = self.run_check("memcheck", "racecheck", "synccheck", "initcheck", "bench", "abc1234")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertEqual(["memcheck", "racecheck", "synccheck", "initcheck"], list(self.checks()))

    def test_an_error_of_a_sanitizer_and_a_missed_gate_fail(self):
        done = self.run_check("memcheck", "bench", "abc1234", SANITIZER_ERRORS="2", BENCH_STATUS="1")
        self.assertEqual(1, done.returncode)
        self.assertIn("gpu-check: failed, see above: memcheck bench\n", done.stdout)
        self.assertEqual(2, self.checks()["memcheck"]["binaries"][0]["errors"])
        self.assertEqual(4, len((self.root / "benchmarks").read_text().splitlines()), "each command ran")

    def test_instruments_are_recorded_and_what_traces_cost_is_measured(self):
        done = self.run_check("instruments", "abc1234")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("instruments_record.py build/cuda/bin/attacca build/gpu-check/llama-1b.gguf --out-dir bench/results/h200", done.stdout)
        self.assertIn("bench trace --device cuda:0 --json-dir bench/results/h200 --commit abc1234",
                      (self.root / "benchmarks").read_text())
        done = self.run_check("instruments", BENCH_STATUS="1")
        self.assertEqual(1, done.returncode)
        self.assertIn("gpu-check: failed, see above: instruments\n", done.stdout)

    def test_ranks_must_tell_the_story_of_one(self):
        done = self.run_check("ranks", "abc1234")
        self.assertEqual(0, done.returncode, done.stdout)
        checks = self.checks()["ranks"]
        for transport in "edges", "nccl", "staged", "nvshmem":
            self.assertIn(f"two ranks tell the story of one, {transport}", checks["passed"])
            self.assertIn(f"conformance, {transport}", checks["passed"])
        self.assertIn("transport staged 2 --gtest_brief=1, half of the GPU: no\n", done.stdout)
        self.assertEqual(2, done.stdout.count("transport nvshmem 2 --gtest_brief=1, half of the GPU: 50\n"))
        self.assertEqual("quit\n" * 4, (self.root / "mps").read_text(), "MPS ends")
        for form in "while-node", "self-relaunch":
            self.assertIn(f"two resident loops tell the story of one rank, {form}", checks["passed"])
        self.assertEqual("abc1234", checks["commit"])
        self.assertIn("| ranks that share the GPU, over each transport | 13 | 0 | 0 |  | abc1234 |", self.page.read_text())
        for transport in "edges", "nccl":
            self.assertIn(f"conformance of four ranks, {transport}", checks["passed"])
        for bench in "ranks-device", "ranks-decode":
            self.assertIn(f"bench {bench} --device cuda:0", (self.root / "benchmarks").read_text())
        self.assertEqual(1, self.run_check("ranks", "abc1234", FAULTS_STATUS="1").returncode, "a dead rank that nobody names")
        self.assertEqual(["faults of processes"], self.checks()["ranks"]["failed"])
        done = self.run_check("ranks", "abc1234", STORY_OF_TWO="twice")
        self.assertEqual(1, done.returncode)
        self.assertIn("gpu-check: not the story of one rank: twice\nranks: failed: two ranks tell the story of one, edges\n", done.stdout)

    def test_ranks_that_tell_the_story_and_then_crash_fail(self):
        done = self.run_check("ranks", "abc1234", STATUS_OF_TWO="139")
        self.assertEqual(1, done.returncode)
        self.assertIn("gpu-check: exit status 139: once\nranks: failed: two ranks tell the story of one, nccl\n", done.stdout)
        self.assertIn("`two ranks tell the story of one, nccl`", self.page.read_text())

    def test_libraries_that_do_not_fit_are_left_out_by_name(self):
        done = self.run_check("ranks", "abc1234", NCCL="2.28.3", SHMEM="no libnvshmem_host.so.3")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("ranks: skipped: nccl\n  ranks NCCL  NCCL 2.28.3", done.stdout)
        self.assertIn("ranks: skipped: nvshmem\n  ranks SHMEM no libnvshmem_host.so.3", done.stdout)
        self.assertEqual(["nccl", "nvshmem"], self.checks()["ranks"]["skipped"])

    def test_the_server_is_measured_with_an_8b_shape_and_soaked(self):
        done = self.run_check("serve", "soak", "abc1234")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("convert --random llama-8b", (self.root / "benchmarks").read_text())
        self.assertIn("serve_record.py figures build/cuda/bin/attacca --out bench/results/h200/serve.json", done.stdout)
        self.assertIn("serve_record.py soak build/cuda/bin/attacca --out bench/results/h200/soak.json", done.stdout)

    def test_refuses_a_word_that_is_neither_a_part_nor_a_commit(self):
        done = self.run_check("memchek")
        self.assertEqual(1, done.returncode)
        self.assertIn("'memchek' is neither a part nor a commit", done.stdout)


if __name__ == "__main__":
    unittest.main()
