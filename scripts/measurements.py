#!/usr/bin/env python3
"""Writes docs/measurements.md from the results in bench/results/<gpu>/*.json that test a published claim.

Usage: measurements.py [--check] [--root FOLDER]
What stands between `<!-- measurements: h200 -->` and `<!-- end of measurements -->` is rewritten whole: a table of every
claim, then a section per experiment with its question, picture, figures and notes. A row that missed its gate is marked as
scripts/tables.py does. What stands outside is kept. --check writes nothing and fails where the file is stale.
"""
import collections
import pathlib
import re

import tables

PART = re.compile(r"(?P<open><!-- measurements: (?P<gpu>\S+) -->\n)(?P<body>.*?)(?P<close><!-- end of measurements -->)",
                  re.DOTALL)
FILE = pathlib.Path("docs") / "measurements.md"
MOST_OPEN_ROWS = 24  # a longer table is folded
VERDICTS = ["held", "partly", "did not hold"]


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def claims(results):
    lines = ["| experiment | claim | source | measured | verdict |", "| --- | --- | --- | --- | --- |"]
    for result in results:
        for finding in result["findings"]:
            texts = [cell(finding[key]) for key in ("claim", "source", "measured")]
            lines.append(f"| [{result['bench']}](#{result['bench']}) | {' | '.join(texts)} | **{finding['verdict']}** |")
    counts = collections.Counter(finding["verdict"] for result in results for finding in result["findings"])
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    return "\n".join([f"{sum(counts.values())} claims: {said}.", "", *lines])


def section(result, gpu, root):
    name = result["bench"]
    parts = [f"## {name}", result["question"][:1].upper() + result["question"][1:]]
    picture = pathlib.PurePosixPath("bench", "results", gpu, f"{name}.svg")
    if (root / picture).exists():
        titles = "; ".join(plot["title"] for plot in result.get("plots", []))
        parts.append(f"![{titles or name}](../{picture})".replace("\n", " "))
    table = tables.render([result], "", tables.known_misses(root)).rstrip("\n")
    if len(result["rows"]) > MOST_OPEN_ROWS:
        table = f"<details><summary>{len(result['rows'])} rows</summary>\n\n{table}\n\n</details>"
    parts.append(table)
    if result.get("notes"):
        parts.append("\n".join(f"- {' '.join(note.split())}" for note in result["notes"]))
    return "\n\n".join(parts)


def render(found, gpu, root):
    results = [result for folder, result in found if folder == gpu and result.get("findings")]
    if not results:
        return f"No results in bench/results/{gpu} yet; `make gpu-check` on a machine with a GPU writes them.\n"
    return "\n\n".join([claims(results), *(section(result, gpu, root) for result in results)]) + "\n"


if __name__ == "__main__":
    tables.rewrite_page("measurements.py", __doc__, FILE, PART,
                        "'<!-- measurements: GPU -->' with an '<!-- end of measurements -->'",
                        lambda part, found, root: render(found, part["gpu"], root))
