#!/usr/bin/env python3
"""Records what `attacca run` gives with its default options, as a new user would call it.

Usage: run_record.py ATTACCA MODEL... --out FILE [--device NAME] [--driver VERSION] [--commit COMMIT] [--times N]
Each model answers one prompt N times, each time in a new process, sampled with the command's own temperature, top-p
and a random seed. FILE has the form of a benchmark's results; scripts/performance.py makes the tables of it. The notes
keep the command, the first answer and what --stats said of it.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import time

PROMPT = "Why is the sky blue? Answer in three sentences."


def answer(command):
    """One answer: the seconds of the whole process, the reply and the lines of --stats."""
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - started
    if done.returncode != 0:
        sys.exit(f"run_record.py: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    reply = json.loads(done.stdout)
    if len(reply["tokens"]) < 2:
        sys.exit(f"run_record.py: {' '.join(command)} answered {len(reply['tokens'])} tokens; a rate needs two")
    return seconds, reply, done.stderr.strip().splitlines()


def row(name, model, values, unit, is_rate=False):
    values = sorted(values)
    at = lambda share: values[round(share * (len(values) - 1))]
    made = {"name": name, "params": {"model": model}, "median": statistics.median(values), "p10": at(0.1),
            "p90": at(0.9), "unit": unit}
    return made | ({"is_rate": True} if is_rate else {})


def record(attacca, model, times):
    """The rows of a model, and the notes on its first answer."""
    command = [attacca, "run", "-m", model, PROMPT, "--json", "--stats"]
    answers = [answer(command) for _ in range(times)]
    name = pathlib.Path(model).stem
    replies = [reply for _, reply, _ in answers]
    rates = [(len(r["tokens"]) - 1) / (r["seconds"] - r["seconds_to_first_token"]) for r in replies]
    rows = [row("whole command", name, [seconds for seconds, _, _ in answers], "s"),
            row("first token", name, [1e3 * r["seconds_to_first_token"] for r in replies], "ms"),
            row("decode", name, rates, "tokens/s", is_rate=True)]
    first = replies[0]
    notes = [f"`{' '.join(['attacca', 'run', '-m', name, json.dumps(PROMPT)])}`, {times} times; the first answer, seed "
             f"{first['seed']}, {len(first['tokens'])} tokens, ended by {first['finish']}: "
             f"{json.dumps(first['text'][:400], ensure_ascii=False)}"]
    notes += [f"{name}: {' '.join(line.split())}" for line in answers[0][2] if line.split()[0] in ("products", "floor")]
    return rows, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacca")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="")
    parser.add_argument("--driver", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    rows, notes = [], []
    for model in options.models:
        more_rows, more_notes = record(options.attacca, model, options.times)
        rows += more_rows
        notes += more_notes
    rows.sort(key=lambda made: ("whole command", "first token", "decode").index(made["name"]))
    options.out.write_text(json.dumps({
        "bench": "run", "question": "what does attacca run give, as people call it?", "device": options.device,
        "commit": options.commit, "driver": options.driver, "date": datetime.date.today().isoformat(), "rows": rows,
        "notes": notes}, indent=2, ensure_ascii=False) + "\n")
    print(f"run_record.py: {len(rows)} rows in {options.out}")


if __name__ == "__main__":
    main()
