#!/usr/bin/env python3
"""Other people's load generators complete a run against `attacca serve`: load_tools.py <binary> [locust|aiperf]...

aiperf counts tokens with the tokenizer of the embedded model, from models/train/tokenizer.json; its count of the prompts
must be the server's. Needs locust and aiperf from PyPI. Skips itself, with status 77, where one is missing.
"""
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

BINARY, TOOLS = sys.argv[1], sys.argv[2:] or ["locust", "aiperf"]
FOLDER = pathlib.Path(sys.executable).parent  # of the virtual environment's commands
ROOT = pathlib.Path(__file__).resolve().parents[2]
REQUESTS = 24


def metric(address, name, labels=""):
    page = urllib.request.urlopen(address + "/metrics", timeout=60).read().decode()
    return sum(float(value) for value in re.findall(rf"^{re.escape(name)}{{[^}}]*{labels}[^}}]*}} (\S+)$", page, re.MULTILINE))


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command[0]}: status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def check_locust(address, folder):
    run(FOLDER / "locust", "-f", ROOT / "tests/oracle/locustfile.py", "--headless", "--users", "16", "--spawn-rate", "16",
        "--run-time", "8s", "--stop-timeout", "30", "--host", address, "--csv", folder / "locust", "--exit-code-on-error", "1")
    rows = {row["Name"]: row for row in csv.DictReader(open(folder / "locust_stats.csv"))}
    all_of_them = rows["Aggregated"]
    assert int(all_of_them["Failure Count"]) == 0, all_of_them
    answered = metric(address, "attacca_http_replies_total", 'status="200"')
    assert int(all_of_them["Request Count"]) <= answered, (all_of_them, answered)
    for name in "chat stream", "completion", "embedding", "health":
        assert int(rows[name]["Request Count"]) > 0, name
    print(f"locust: {all_of_them['Request Count']} requests of 16 users, none failed")


def check_aiperf(address, folder):
    tokenizer = folder / "tokenizer"
    tokenizer.mkdir()
    shutil.copy(ROOT / "models/train/tokenizer.json", tokenizer)
    (tokenizer / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|endoftext|>"}))
    names = "vllm:prompt_tokens_total", "vllm:generation_tokens_total"
    before = [metric(address, name) for name in names]
    run(FOLDER / "aiperf", "profile", "--model", "small", "--url", address, "--endpoint-type", "completions", "--streaming",
        "--tokenizer", tokenizer, "--concurrency", "4", "--request-count", REQUESTS, "--isl", "64", "--osl", "24", "--extra-inputs",
        "ignore_eos:true", "--random-seed", "1", "--ui", "none", "--output-artifact-dir", folder / "aiperf", cwd=folder)
    report = json.loads(next((folder / "aiperf").rglob("profile_export_aiperf.json")).read_text())
    assert int(report["request_count"]["avg"]) == REQUESTS, report["request_count"]
    assert not report.get("error_summary"), report["error_summary"]
    prompts, tokens = (metric(address, name) - old for name, old in zip(names, before))
    assert tokens == REQUESTS * 24, tokens
    counted = report["input_sequence_length"]["avg"]
    print(f"aiperf: {REQUESTS} requests, prompts of {counted:g} tokens by its count and {prompts / REQUESTS:g} by the server's, "
          f"{report['time_to_first_token']['p50']:.1f} ms to the first token (p50)")
    assert abs(counted * REQUESTS - prompts) < 0.5


def main():
    missing = [tool for tool in TOOLS if not (FOLDER / tool).exists()]
    if missing:
        print(f"{', '.join(missing)} is missing: pip install {' '.join(missing)}")
        sys.exit(77)
    server = subprocess.Popen([BINARY, "serve", "--port", "0", "--log-format", "none", "--slots", "16"],
                              stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        for tool in TOOLS:
            with tempfile.TemporaryDirectory() as folder:
                {"locust": check_locust, "aiperf": check_aiperf}[tool](address, pathlib.Path(folder))
    finally:
        server.terminate()
        assert server.wait(60) == 0


main()
