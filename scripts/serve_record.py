#!/usr/bin/env python3
"""Records what `attacca serve` gives on a device: its figures under load, or a soak of both schedulers.

Usage: serve_record.py figures ATTACCA --model FILE --out FILE [--on DEVICE] [--concurrency N] [--prompt N] [--output N]
       serve_record.py soak ATTACCA --out FILE [--on DEVICE] [--streams N] [--slots N] [--seconds S]
FILE has the form of a benchmark's results; scripts/performance.py makes the tables of it. `figures` compares a server
with the engine in process and with the bare prefill step (`attacca bench engine` in the same run), and lets hogs burn
the host's cores. `soak` runs tests/tools/serve_soak_test.py for both schedulers at once. The exit status is 1 if a gate
is missed or a soak fails.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

LEAST_OF_ENGINE = 0.85
MOST_OF_PREFILL = 1.2
SCHEDULERS = "host", "resident"
SOAK = pathlib.Path(__file__).resolve().parents[1] / "tests" / "tools" / "serve_soak_test.py"


def row(name, params, median, unit, spread=None, **rest):
    return {"name": name, "params": params, "median": median, "unit": unit, **({"p10": spread[0], "p90": spread[1]} if spread else {}),
            **rest}


def compared(made, baseline, factor):
    """The row with a baseline, and a gate at `factor` times of it."""
    return made | {"baseline": baseline, "ratio": made["median"] / baseline, "limit": factor * baseline}


def holds(made):
    if "limit" not in made:
        return True
    return made["median"] >= made["limit"] if made.get("is_rate") else made["median"] <= made["limit"]


def result_of(command, **environment):
    """Runs a command that writes JSON to the file in its last word, and returns that."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "result.json"
        done = subprocess.run([*map(str, command), str(path)], env={**os.environ, **environment}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if not path.exists():
            sys.exit(f"serve_record.py: {' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-2000:]}")
        return json.loads(path.read_text())


@contextlib.contextmanager
def serving(attacca, *options):
    """A server on a port of its own; its address. It must end with 0."""
    process = subprocess.Popen([attacca, "serve", "--port", "0", "--log-format", "none", *map(str, options)],
                               stdout=subprocess.PIPE, text=True)
    try:
        found = re.search(r"(http://\S+)", process.stdout.readline())
        if not found:
            sys.exit(f"serve_record.py: attacca serve {' '.join(map(str, options))} ended with {process.wait()}")
        yield found[1]
        process.send_signal(signal.SIGTERM)
        if process.wait(60) != 0:
            sys.exit(f"serve_record.py: the server ended with {process.returncode}")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Load:
    def __init__(self, options, url):
        self.options, self.url, self.seed = options, url, 0

    def run(self, prompt, output, *more):
        self.seed += 1  # other prompts each time, which the prefix cache does not have
        found = result_of([self.options.attacca, "bench", "serve", "--url", self.url, "--prompt-tokens", prompt,
                           "--output-tokens", output, "--ignore-eos", "--seed", self.seed, *more, "--json"])
        if found["failed"] or not found["complete"]:
            sys.exit(f"serve_record.py: {found['failed']} requests failed: {found['failures']}")
        return found


def engine_figures(options):
    """Tokens a second of the engine in process, and the milliseconds of a bare prefill step."""
    found = result_of([options.attacca, "bench", "engine", "--model", options.model, "--slots", options.concurrency, "--device",
                       options.on, *(["--quick"] if options.quick else []), "--json"])
    rows = {made["name"]: made for made in found["rows"]}
    return rows["output"]["median"], rows["first token"]["baseline"]


def figures_of(options, scheduler, rate, prefill_ms):
    params = {"scheduler": scheduler}
    slots = options.concurrency
    with serving(options.attacca, options.model, "--device", options.on, "--scheduler", scheduler, "--slots", slots,
                 "--context", max(1024, 2 * (options.prompt + options.output)), "--max-waiting", 2 * slots) as url:
        load = Load(options, url)
        load.run(options.prompt, 4, "--concurrency", slots, "--requests", slots)  # what is used for the first time
        full = load.run(options.prompt, options.output, "--concurrency", slots, "--requests", options.rounds * slots)
        low = load.run(options.prompt, 4, "--concurrency", 1, "--requests", options.alone)
        quiet, hogged = (load.run(options.prompt, options.output, "--concurrency", min(slots, 64), "--requests",
                                  2 * min(slots, 64), "--hog", hogs) for hogs in (0, options.hog))
    ttft, busy = low["ttft_ms"], {"busy cores": options.hog}
    return [compared(row("output", params, full["output_tokens_per_second"], "tokens/s", is_rate=True), rate,
                     LEAST_OF_ENGINE),
            compared(row("first token at low load", params, ttft["p50"], "ms", (ttft["p50"], ttft["p90"])), prefill_ms,
                     MOST_OF_PREFILL),
            row("first token at full load", params, full["ttft_ms"]["p50"], "ms",
                (full["ttft_ms"]["p50"], full["ttft_ms"]["p90"])),
            row("inter-token p99", params | {"busy cores": 0}, quiet["itl_ms"]["p99"], "ms"),
            row("inter-token p99", params | busy, hogged["itl_ms"]["p99"], "ms")]


def figures(options):
    rate, prefill_ms = engine_figures(options)
    rows = [made for scheduler in SCHEDULERS for made in figures_of(options, scheduler, rate, prefill_ms)]
    names = list(dict.fromkeys(made["name"] for made in rows))
    rows.sort(key=lambda made: names.index(made["name"]))
    for made in rows:
        print(f"{made['name']}, {made['params']}: {made['median']:.4g} {made['unit']}" +
              ("" if "limit" not in made else f", gate {made['limit']:.4g}: {'held' if holds(made) else 'missed'}"), flush=True)
    notes = [f"`attacca serve {pathlib.Path(options.model).name} --slots {options.concurrency}` and `attacca bench serve`: prompts of "
             f"{options.prompt} tokens, outputs of {options.output}, {options.concurrency} at once, {options.rounds * options.concurrency} "
             "requests. Compared with the engine in process, with the same requests, and with a prefill step alone",
             f"the first token at low load is of {options.alone} requests one after the other. Between tokens: {min(options.concurrency, 64)} "
             "streams, as a client on the same machine sees them, with and without threads that burn the host's cores. "
             "`attacca bench loop` has the times of publication"]
    return "serve", "what does a client get of the engine?", rows, notes, all(holds(made) for made in rows)


def start_soak(options, scheduler, folder):
    server = ["--device", options.on, "--scheduler", scheduler, "--same-bits", "--slots", str(options.slots), "--pages",
              str(options.pages), "--max-waiting", str(options.streams + 100), "--context", "1024"]
    record, log = folder / f"{scheduler}.json", folder / f"{scheduler}.log"
    environment = {"ATTACCA_SOAK_STREAMS": str(options.streams), "ATTACCA_SOAK_SECONDS": str(options.seconds),
                   "ATTACCA_SOAK_SERVER": json.dumps(server), "ATTACCA_SOAK_JSON": str(record)}
    process = subprocess.Popen([sys.executable, str(SOAK), options.attacca], env={**os.environ, **environment},
                               stdout=log.open("w"), stderr=subprocess.STDOUT)
    return process, record, log


def soak(options):
    rows, notes, is_clean = [], [], True
    with tempfile.TemporaryDirectory() as name:
        runs = {scheduler: start_soak(options, scheduler, pathlib.Path(name)) for scheduler in SCHEDULERS}
        for scheduler, (process, record, log) in runs.items():
            status = process.wait()
            if status != 0 or not record.exists():
                is_clean = False
                notes.append(f"{scheduler}: failed: {log.read_text()[-1500:]}")
                continue
            found = json.loads(record.read_text())
            params = {"scheduler": scheduler, "streams at once": found["streams"], "seconds": found["seconds"],
                      "complete": found["complete"], "left early": found["left"], "refused": found["malformed"] + found["oversized"],
                      "lost or crossed": 0, "pages in use": found["pages_in_use"]}
            rows.append(row("soak", params, found["tokens"] / found["seconds"], "tokens/s", is_rate=True))
            rows.append(row("memory at the end", {"scheduler": scheduler}, found["end_bytes"] / (1 << 20), "MiB")
                        | {"baseline": found["middle_bytes"] / (1 << 20),
                           "ratio": found["end_bytes"] / found["middle_bytes"]})
            print(f"soak, {scheduler}: {found}", flush=True)
    if is_clean:
        notes.append(f"two servers of the embedded model on one device at the same time, {options.slots} slots each. Every stream that was read "
                     "to its end had the text of the same request alone; at the end no page was in use. The memory is compared "
                     "with that after three quarters of the time")
    return "soak", "does the server keep what it promises for long?", rows, notes, is_clean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["figures", "soak"])
    parser.add_argument("attacca")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--on", default="cuda:0")
    parser.add_argument("--model", default="small")
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", type=int, default=16)
    parser.add_argument("--hog", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--streams", type=int, default=384)
    parser.add_argument("--slots", type=int, default=256)
    parser.add_argument("--pages", type=int, default=16384)
    parser.add_argument("--seconds", type=float, default=240)
    for name in "device", "driver", "commit":
        parser.add_argument(f"--{name}", default="")
    options = parser.parse_args()
    bench, question, rows, notes, is_good = (figures if options.what == "figures" else soak)(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({
        "bench": bench, "question": question, "device": options.device, "commit": options.commit, "driver": options.driver,
        "date": datetime.date.today().isoformat(), **({"is_quick": True} if options.quick else {}), "rows": rows,
        "notes": notes}, indent=2, ensure_ascii=False) + "\n")
    print(f"serve_record.py: {len(rows)} rows in {options.out}")
    for note in notes if not is_good else []:
        print(f"serve_record.py: {note}", file=sys.stderr)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
