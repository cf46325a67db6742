#!/usr/bin/env python3
"""Writes docs/measurements.md from the results in bench/results/<gpu>/*.json that test a published claim.

Usage: measurements.py [--check] [--root FOLDER]
What stands between `<!-- measurements: h200 -->` and `<!-- end of measurements -->` is rewritten whole: a table of every
claim, then a section per experiment with its question, picture, figures and notes. A row that missed its gate is marked as
scripts/tables.py does. What stands outside is kept. README.md has the counts between `<!-- claims: h200 -->` and
`<!-- end of claims -->`. --check writes nothing and fails where a file is stale.
"""
import collections
import pathlib
import re

import tables

PART = re.compile(r"(?P<open><!-- measurements: (?P<gpu>\S+) -->\n)(?P<body>.*?)(?P<close><!-- end of measurements -->)",
                  re.DOTALL)
FILE = pathlib.Path("docs") / "measurements.md"
COUNTS = re.compile(r"(?P<open><!-- claims: (?P<gpu>\S+) -->)(?P<body>.*?)(?P<close><!-- end of claims -->)", re.DOTALL)
README = pathlib.Path("README.md")
MOST_OPEN_ROWS = 24  # a longer table is folded
VERDICTS = ["held", "partly", "did not hold"]


def cell(text):
    return " ".join(text.split()).replace("|", "\\|")


def tested(found, gpu):
    return [result for folder, result in found if folder == gpu and result.get("findings")]


def count_verdicts(results):
    return collections.Counter(finding["verdict"] for result in results for finding in result["findings"])


def counts(found, gpu):
    verdicts = count_verdicts(tested(found, gpu))
    return f"{sum(verdicts.values())} claims about GPUs tested, {verdicts['did not hold']} refuted"


def claims(results):
    lines = ["| experiment | claim | source | measured | verdict |", "| --- | --- | --- | --- | --- |"]
    for result in results:
        for finding in result["findings"]:
            texts = [cell(finding[key]) for key in ("claim", "source", "measured")]
            lines.append(f"| [{result['bench']}](#{result['bench']}) | {' | '.join(texts)} | **{finding['verdict']}** |")
    verdicts = count_verdicts(results)
    said = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS)
    return "\n".join([f"{sum(verdicts.values())} claims: {said}.", "", *lines])


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
    results = tested(found, gpu)
    if not results:
        return f"No results in bench/results/{gpu} yet; `make gpu-check` on a machine with a GPU writes them.\n"
    return "\n\n".join([claims(results), *(section(result, gpu, root) for result in results)]) + "\n"


def main():
    arguments = tables.arguments_of(__doc__)
    found = tables.load(arguments.root)
    tables.rewrite_parts(arguments, "measurements.py", FILE, PART,
                         "'<!-- measurements: GPU -->' with an '<!-- end of measurements -->'",
                         lambda part: render(found, part["gpu"], arguments.root))
    if (arguments.root / README).exists():
        tables.rewrite_parts(arguments, "measurements.py", README, COUNTS,
                             "'<!-- claims: GPU -->' with an '<!-- end of claims -->'",
                             lambda part: counts(found, part["gpu"]))


if __name__ == "__main__":
    main()
