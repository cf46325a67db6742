"""Writes the training text: many processes, one file each, the same text for the same seed whatever the machine.

    python3 generate.py --out DIR [--megabytes 200] [--shards 64] [--seed 1]

DIR gets train-00.txt ... and valid.txt. Documents are separated by <|endoftext|>.
"""

import argparse
import multiprocessing
import pathlib
import random
import time

from dialogue import document

SEPARATOR = "<|endoftext|>"


def write(job):
    path, seed, size = job
    rng = random.Random(seed)
    documents, written = [], 0
    while written < size:
        documents.append(document(rng))
        written += len(documents[-1]) + len(SEPARATOR)
    path.write_text(SEPARATOR.join(documents), encoding="ascii")
    return written


def generate(folder, megabytes, shards, seed):
    folder.mkdir(parents=True, exist_ok=True)
    size = int(megabytes * 1e6 / shards)
    jobs = [(folder / f"train-{shard:02}.txt", f"{seed}-train-{shard}", size) for shard in range(shards)]
    jobs.append((folder / "valid.txt", f"{seed}-valid", min(size, 2_000_000)))
    with multiprocessing.Pool() as pool:
        return sum(pool.imap_unordered(write, jobs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    begin = time.time()
    total = generate(arguments.out, arguments.megabytes, arguments.shards, arguments.seed)
    print(f"{total / 1e6:.1f} MB in {time.time() - begin:.1f} s")
