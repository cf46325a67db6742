#!/usr/bin/env python3
"""Writes the tables of docs/performance.md from bench/results/<gpu>/engine.json, decode.json and prefill.json.

Usage: performance.py [--check] [--root FOLDER]
What stands between `<!-- performance: decode@h200 -->` and `<!-- end of performance -->` is rewritten whole: a table
for each kind of row, with its floor, the gate and every peer, and the notes of the run. What stands outside, which says
what limits the rows and what was tried, is kept. --check writes nothing and fails where the file is stale.
"""
import pathlib
import re

import tables

PART = re.compile(r"(?P<open><!-- performance: (?P<bench>[^\s@]+)@(?P<gpu>\S+) -->\n)(?P<body>.*?)"
                  r"(?P<close><!-- end of performance -->)", re.DOTALL)
FILE = pathlib.Path("docs") / "performance.md"
PEER = " against a peer"  # at the end of the name of a row whose baseline is a peer's figure


def key_of(row):
    """The key that a row shares with the rows that compare it with peers."""
    params = {key: value for key, value in row.get("params", {}).items() if key != "peer"}
    return row["name"].removesuffix(PEER), tuple(sorted((key, str(value)) for key, value in params.items()))


def gate(row):
    if "limit" not in row:
        return ""
    sign = "≥" if row.get("is_rate") else "≤"
    return f"{sign} {tables.number(row['limit'])} {row['unit']}, {tables.outcome(row)}"


def against(row):
    """A peer's figure, and how many times as fast attacca is."""
    if "baseline" not in row:
        return ""
    times = row["median"] / row["baseline"] if row.get("is_rate") else row["baseline"] / row["median"]
    return f"{tables.number(row['baseline'])} {row['unit']}: {times:.2f}×"


def table(name, rows, peers):
    """The table of the rows of one name. `peers` has the rows of peers by key and by the peer's name."""
    params = list(dict.fromkeys(key for row in rows for key in row.get("params", {})))
    names = list(dict.fromkeys(peer for row in rows for peer in peers.get(key_of(row), {})))
    columns = [(key, lambda row, key=key: tables.cell(row, {}, key)) for key in params]
    columns += [("median", lambda row: tables.cell(row, {}, "median")),
                ("p10 – p90", lambda row: tables.cell(row, {}, "spread")),
                ("floor", lambda row: tables.cell(row, {}, "floor")),
                ("of floor", lambda row: tables.cell(row, {}, "fraction")),
                ("gate", gate),
                ("compared with", against)]
    columns += [(peer, lambda row, peer=peer: against(peers.get(key_of(row), {}).get(peer, {}))) for peer in names]
    columns = [(title, cell) for title, cell in columns if any(cell(row) for row in rows)]
    lines = ["| " + " | ".join(title for title, _ in columns) + " |",
             "|" + "|".join(" --- " if title in ("shape", "weights") else " ---: " for title, _ in columns) + "|"]
    lines += ["| " + " | ".join(cell(row) for _, cell in columns) + " |" for row in rows]
    return f"**{name[:1].upper()}{name[1:]}**\n\n" + "\n".join(lines)


def verdict(rows):
    gated = [row for row in rows if "limit" in row]
    missed = [row for row in gated if not tables.meets_limit(row)]
    if not gated:
        return "None of these rows has a gate."
    return f"{len(gated)} gates, {len(gated) - len(missed)} held" + (f", {len(missed)} missed." if missed else ".")


def render(result, known):
    peers, kinds = {}, {}
    for row in result["rows"]:
        if row["name"].endswith(PEER):
            peers.setdefault(key_of(row), {})[row["params"]["peer"]] = row
        else:
            kinds.setdefault(row["name"], []).append(row)
    parts = [verdict(result["rows"])]
    parts += [table(name, rows, peers) for name, rows in kinds.items()]
    if meaning := tables.meaning_of_marks([result], known):
        parts.append("\n".join(meaning))
    if result.get("notes"):
        parts.append("\n".join(f"- {' '.join(note.split())}" for note in result["notes"]))
    said = [result["device"], *(f"{key} {result[key]}" for key in ("driver", "commit") if result.get(key))]
    parts.append(f"<sub>{', '.join([*said, *([result['date']] if result.get('date') else [])])}</sub>")
    return "\n\n".join(parts) + "\n"


def part_of(match, found, root):
    results = [result for gpu, result in found if gpu == match["gpu"] and result["bench"] == match["bench"]]
    if results:
        return render(results[0], tables.known_misses(root))
    return (f"No result of `{match['bench']}` in bench/results/{match['gpu']} yet; `make gpu-check` on a machine with a "
            "GPU writes it.\n")


if __name__ == "__main__":
    tables.rewrite_page("performance.py", __doc__, FILE, PART,
                        "'<!-- performance: BENCH@GPU -->' with an '<!-- end of performance -->'", part_of)
