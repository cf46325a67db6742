"""Makes the model from nothing: generate, encode, train, export, evaluate.

    python3 models/train/make_model.py OUT [--minutes 6] [--megabytes 400]

OUT gets attacca-small.gguf, model.pt, samples.txt and log.txt; the text and tokens go to a temporary folder.
Needs python3, numpy and PyTorch, and a CUDA GPU to finish within the minutes; everything else is in this folder.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=6, help="time for training alone")
    parser.add_argument("--megabytes", type=float, default=400)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--each", type=int, default=50, help="questions for each skill in the evaluation")
    parser.add_argument("--seed", type=int, default=1)
    arguments, train_arguments = parser.parse_known_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = (arguments.out / "log.txt").open("w")
    begin = time.time()

    def say(line):
        for stream in (sys.stdout, log):
            print(line, file=stream, flush=True)

    def step(script, *options):
        say(f"-- {script} after {time.time() - begin:.0f} s")
        command = [sys.executable, str(HERE / script), *map(str, options)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for line in process.stdout:
                say(line.rstrip())
        if process.returncode:
            sys.exit(f"{script} failed with status {process.returncode}; see {arguments.out}/log.txt")

    with tempfile.TemporaryDirectory() as scratch:
        text, rows = pathlib.Path(scratch) / "text", pathlib.Path(scratch) / "rows"
        checkpoint, model = arguments.out / "model.pt", arguments.out / "attacca-small.gguf"
        step(
            "generate.py",
            "--out",
            text,
            "--megabytes",
            arguments.megabytes,
            "--shards",
            arguments.shards,
            "--seed",
            arguments.seed,
        )
        step("tokenizer.py", "--text", text, "--encode", rows)
        step(
            "train.py",
            "--rows",
            rows,
            "--out",
            arguments.out,
            "--minutes",
            arguments.minutes,
            "--seed",
            arguments.seed,
            *train_arguments,
        )
        step("export.py", checkpoint, model)
        step(
            "evaluate.py",
            model,
            "--rows",
            rows,
            "--checkpoint",
            checkpoint,
            "--samples",
            arguments.out / "samples.txt",
            "--each",
            arguments.each,
        )
    say(f"done in {time.time() - begin:.0f} s: {model}, {model.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
