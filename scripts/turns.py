#!/usr/bin/env python3
"""Compares whole steps and prompts of two builds of attacca, which take turns on a GPU.

Usage: turns.py OLD NEW --names OLD NEW --out FILE [--rounds N] [--gpu NAME] [--driver VERSION]
OLD and NEW are attacca commands built with ATTACCA_BENCH=ON, and --names says which commits they are. In each round both
run `attacca bench decode` and `prefill --quick` with random weights in the shapes of Llama 1B and 8B, in the other order
than in the round before. A row is NEW's, by default or with the same bits in every batch, against OLD's default: the
median, least and most of all rounds. FILE has the form of a benchmark's results; scripts/tables.py makes a table of it.
"""
import argparse
import collections
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

CASES = [["decode", "--shape", "llama-1b", "--batch", "1,8,16,64", "--context", "512"],
         ["decode", "--shape", "llama-8b", "--batch", "1,8,16,64", "--context", "512"],
         ["decode", "--shape", "llama-8b", "--batch", "1,8,64", "--context", "4096"],
         ["prefill", "--shape", "llama-1b", "--tokens", "512,2048"],
         ["prefill", "--shape", "llama-8b", "--tokens", "512,2048"]]
SAME_BITS = " with the same bits"
KEYS = ("shape", "batch", "context", "tokens")


def measured(command, case):
    """The rows of one benchmark: {(name, parameters): median}."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "result.json")
        done = subprocess.run([command, "bench", *case, "--graphs", "full", "--no-peer", "--quick", "--json", file],
                              capture_output=True, text=True)
        if not file.exists():
            sys.exit(f"turns.py: {command} bench {' '.join(case)} ended with {done.returncode}: {done.stderr.strip()}")
        rows = json.loads(file.read_text())["rows"]
    return {(row["name"], tuple((key, row["params"][key]) for key in KEYS if key in row["params"])): row["median"]
            for row in rows if "fp8" not in row["name"]}


def rows_of(times):
    """NEW's rows against OLD's default."""
    for (name, params), of in times.items():
        old = times[name.removesuffix(SAME_BITS), params]["old"]
        if not of["new"] or not old:
            continue
        median, baseline = statistics.median(of["new"]), statistics.median(old)
        mode = "same bits" if name.endswith(SAME_BITS) else "default"
        yield {"name": name.removesuffix(SAME_BITS), "params": dict(params) | {"mode": mode}, "median": median,
               "p10": min(of["new"]), "p90": max(of["new"]), "unit": "µs", "baseline": baseline, "ratio": median / baseline}


def order(row):
    params = row["params"]
    return row["name"], params["shape"], *(params.get(key, 0) for key in ("context", "batch", "tokens")), params["mode"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--names", nargs=2, required=True, metavar=("OLD", "NEW"), help="the commits")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--gpu", default="NVIDIA H200")
    parser.add_argument("--driver", default="")
    given = parser.parse_args()
    commands = {"old": given.old, "new": given.new}
    times = collections.defaultdict(lambda: {"old": [], "new": []})
    for turn in range(given.rounds):
        print(f"turns.py: round {turn + 1} of {given.rounds}", file=sys.stderr)
        for case in CASES:
            for which in sorted(commands, reverse=turn % 2 == 0):
                for key, median in measured(commands[which], case).items():
                    times[key][which].append(median)
    result = {"bench": "turns", "question": f"how fast is {given.names[1]}, compared with {given.names[0]}?",
              "device": given.gpu, "commit": given.names[1], "driver": given.driver,
              "date": datetime.date.today().isoformat(),
              "notes": [f"{given.rounds} rounds; the baseline is the default of {given.names[0]}"],
              "rows": sorted(rows_of(times), key=order)}
    given.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
