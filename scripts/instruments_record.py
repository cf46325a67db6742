#!/usr/bin/env python3
"""Records what the instruments find on a GPU: its roofs, probes at known places, and traces of runs.

Usage: instruments_record.py ATTACCA MODEL --out-dir FOLDER [--device NAME] [--driver VERSION] [--commit COMMIT]
                             [--on cuda:0] [--tokens N]
Writes roofline.json (roofs, places, trials) and traced-runs.json (a run with each scheduler at each level of --trace) in the
form of a benchmark's results; scripts/tables.py puts them into docs/roofline.md and docs/trace.md. It fails if `attacca
roofline` finds a probe or a trial that is not as expected, or if a step of the resident loop is missing in its trace.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import tempfile

RATES = {"read": "read_bytes_per_second", "copy": "copy_bytes_per_second", "L2": "cache_bytes_per_second",
         "fp32": "fp32_flops_per_second", "bf16": "bf16_flops_per_second", "fp8": "fp8_flops_per_second"}
TIMES = ("launch", "graph", "node", "early_node", *(f"{fork}_of_{width}" for fork in ("branch", "root") for width in (2, 8, 32, 128)),
         "persistent", "step", "barrier", "device_launch", "tiny")
PROMPT = "Why is the sky blue? Answer in three sentences."


def call(command, may_complain=False):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and not (may_complain and done.stdout.startswith("{")):
        sys.exit(f"instruments_record.py: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done


def roofline(attacca, on):
    """Rows of roofs, places and trials, notes, and complaints."""
    done = call([attacca, "roofline", "probes", "--measure", "--try", "--counters", "--device", on, "--json"], may_complain=True)
    found = json.loads(done.stdout)
    roofs = found["roofs"]
    rows = [{"name": "roof", "params": {"of": of}, "median": roofs[key] / 1e9, "unit": "GB/s" if "bytes" in key else "GFLOP/s",
             "is_rate": True} for of, key in RATES.items() if roofs[key] > 0]
    rows += [{"name": "cost", "params": {"of": of.replace("_", " ")}, "median": roofs[f"{of}_us"], "unit": "µs"}
             for of in TIMES if roofs.get(f"{of}_us", 0) > 0]
    for kernel in found["kernels"]:
        rows.append({"name": "probe", "params": {"of": kernel["name"], "bound by": kernel["limit"]},
                     "median": kernel["time_us"], "unit": "µs", "floor": kernel["floor_us"], "fraction": kernel["share"]})
        if "counted_bytes" in kernel and kernel["bytes"] > 0:
            rows.append({"name": "memory", "params": {"of": kernel["name"]}, "median": kernel["counted_bytes"] / 1e6,
                         "unit": "MB", "baseline": kernel["bytes"] / 1e6, "ratio": kernel["counted_bytes"] / kernel["bytes"]})
        if "counted_flops" in kernel and kernel["flops"] > 0:
            rows.append({"name": "arithmetic", "params": {"of": kernel["name"]}, "median": kernel["counted_flops"] / 1e9,
                         "unit": "GFLOP", "baseline": kernel["flops"] / 1e9, "ratio": kernel["counted_flops"] / kernel["flops"]})
    notes = [f"kernels timed by {found['timed_by']}"]
    for what in ("bytes", "flops"):
        if found[f"{what}_not_counted"]:
            notes.append(f"{what} not counted: {found[f'{what}_not_counted']}")
    for trial in found["tried"]:
        if "why_not" in trial:
            notes.append(f"{trial['tool']}: not tried, {trial['why_not']}")
            continue
        rows.append({"name": "trial", "params": {"of": trial["what"]}, "median": trial["measured_us"], "unit": "µs",
                     "baseline": trial["predicted_us"], "ratio": trial["measured_us"] / trial["predicted_us"]})
    # The last line repeats that it failed, and a line of progress may stand before the first.
    said = [line for line in done.stderr.strip().splitlines() if not re.fullmatch(r"[^']*: \d+ %", line)]
    complaints = said[:-1] if done.returncode != 0 else []
    notes += [f"not as expected: {line}" for line in complaints]
    return rows, notes, complaints


def slices_of(path):
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


def traced_run(attacca, model, on, scheduler, level, tokens, folder):
    """The row of a run with --trace, notes, and complaints."""
    trace, log = folder / "run.json", folder / "steps.jsonl"
    done = call([attacca, "run", "-m", model, PROMPT, "-n", str(tokens), "--ignore-end", "--device", on, "--scheduler",
                 scheduler, "--trace", str(trace), "--trace-level", level, "--step-log", str(log), "--plain"])
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    slices = slices_of(trace)
    own = [piece for piece in slices if " step of " in piece["name"] and "iteration" in piece["args"]]
    busy = re.search(r"^\S*cuda\S* .*?([\d.]+) %|^host .*?([\d.]+) %", call([attacca, "trace", str(trace)]).stdout, re.MULTILINE)
    medians = sorted(step["microseconds"] for step in steps)
    row = {"name": f"{scheduler} scheduler, level of {level}s",
           "params": {"slices": len(slices), "steps": len(steps), "steps that recorded themselves": len(own),
                      "busy %": float(busy[1] or busy[2]) if busy else 0.0},
           "median": medians[len(medians) // 2], "unit": "µs"}
    notes = [f"{scheduler}, {level}: {line}" for line in done.stderr.splitlines() if "--trace" in line]
    complaints = []
    if scheduler == "resident" and len(own) != len(steps):
        complaints.append(f"the trace of the resident loop has {len(own)} of {len(steps)} steps ({level})")
    return row, notes, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attacca")
    parser.add_argument("model")
    parser.add_argument("--out-dir", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="")
    parser.add_argument("--driver", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--on", default="cuda:0")
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    complaints = []

    def write(bench, question, rows, notes):
        path = options.out_dir / f"{bench}.json"
        path.write_text(json.dumps({
            "bench": bench, "question": question, "device": options.device, "commit": options.commit,
            "driver": options.driver, "date": datetime.date.today().isoformat(), "rows": rows, "notes": notes},
            indent=2, ensure_ascii=False) + "\n")
        print(f"instruments_record.py: {len(rows)} rows in {path}")

    options.out_dir.mkdir(parents=True, exist_ok=True)
    rows, notes, more = roofline(options.attacca, options.on)
    complaints += more
    write("roofline", "where are the roofs, and are they where probes and trials find them?", rows, notes)
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for scheduler in ("host", "resident"):
            for level in ("graph", "node"):
                row, said, more = traced_run(options.attacca, options.model, options.on, scheduler, level, options.tokens,
                                             pathlib.Path(folder))
                rows.append(row)
                notes += said
                complaints += more
    write("traced-runs", "what does a trace of a run show?", rows, notes)
    for line in complaints:
        print(f"instruments_record.py: {line}", file=sys.stderr)
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
