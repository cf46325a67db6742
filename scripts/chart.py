#!/usr/bin/env python3
"""Draws docs/images/decode.svg and its place in README.md: one decode step, attacca beside its floor and its peers.

Usage: chart.py [--check] [--root FOLDER]
What stands between `<!-- chart: h200 llama-8b 1 512 -->` (results of which GPU, shape, batch, context) and
`<!-- end of chart -->` is rewritten whole. attacca, the floor and the peers that `attacca bench` runs come from
bench/results/<gpu>/decode.json, others from bench/results/anchors/decode.json. --check writes nothing and fails where the
picture or the page is stale.
"""
import pathlib
import re

import svg
import tables

PART = re.compile(r"(?P<open><!-- chart: (?P<gpu>\S+) (?P<shape>\S+) (?P<batch>\d+) (?P<context>\d+) -->\n)(?P<body>.*?)"
                  r"(?P<close><!-- end of chart -->)", re.DOTALL)
FILE = pathlib.Path("README.md")
PICTURE = pathlib.Path("docs") / "images" / "decode.svg"
SLOW = 2.5  # a peer that takes more than this many times as long as attacca is named in words, not drawn


def result_of(found, folder, bench):
    results = [result for gpu, result in found if gpu == folder and result["bench"] == bench]
    return results[0] if results else None


def figures(found, gpu, wanted):
    """The floor, and (name, low, high, label) for each bar: attacca first, then the others, fastest first."""
    own = result_of(found, gpu, "decode")
    matches = lambda row: wanted.items() <= row.get("params", {}).items() and row["params"].get("graphs", "full") == "full"
    rows = [row for row in own["rows"] if matches(row)] if own else []
    ours = [row for row in rows if row["name"] == "decode step"]
    if not ours:
        return None
    ours, others = ours[0], []
    for row in rows:
        if row["name"] == "decode step against a peer":
            others.append((row["params"]["peer"], row["baseline"], row["baseline"]))
    for row in (result_of(found, "anchors", "anchors-decode") or {"rows": []})["rows"]:
        if matches(row):
            low = row.get("low", row.get("median"))
            others.append((f"{row['name']} *", low, row.get("high", low)))
    others = [(name, low, high, f"{low / ours['median']:.2f} times attacca") for name, low, high in sorted(others, key=lambda each: each[1])]
    return ours["floor"], [("attacca", ours["median"], ours["median"], f"{100 * ours['fraction']:.0f} % of the floor"), *others]


def amount(low, high):
    return f"{tables.number(low)} µs" if low == high else f"{tables.number(low)} – {tables.number(high)} µs"


def split(bars):
    """Splits bars into those to draw and those too slow for the same scale."""
    drawn = [bar for bar in bars if bar[1] <= SLOW * bars[0][1]]
    return drawn, [bar for bar in bars if bar not in drawn]


def picture(floor, bars, wanted, device):
    drawn, _ = split(bars)
    left, top, pitch, width = 210, 74, 34, 400
    height = top + pitch * len(drawn) + 34
    what = f"One decode step of {wanted['shape']}, bf16, batch {wanted['batch']}, context {wanted['context']:,}, {device}"
    drawing = svg.Drawing(880, height, f"{what}: " + ", ".join(f"{name} {amount(low, high)}" for name, low, high, _ in bars))
    drawing.text(16, 28, what, "ink", 15, weight=600)
    scale = width / max(high for _, _, high, _ in drawn)
    x = left + scale * floor
    drawing.text(x, 56, f"memory floor {amount(floor, floor)}", "floor-ink", 12, "middle")
    for number, (name, low, high, said) in enumerate(drawn):
        y = top + pitch * number
        drawing.text(left - 12, y + 16, name, "ink", 13, "end", 600 if number == 0 else 400)
        drawing.rectangle(left, y, scale * high, 22, "own" if number == 0 else "peer", 2)
        drawing.text(left + scale * high + 10, y + 16, f"{amount(low, high)}, {said}", "ink", 13, "start",
                     600 if number == 0 else 400)
    drawing.line([(x, 62), (x, top + pitch * len(drawn))], "floor")
    drawing.text(16, height - 14, "Shorter is better. The floor is the time to read all weights and the KV cache once at "
                 "the measured bandwidth.", "soft", 12)
    return drawing.render()


def caption(floor, bars, own, anchors):
    _, slow = split(bars)
    figures_said = "; ".join(f"{name} {amount(low, high)}" for name, low, high, _ in [("memory floor", floor, floor, ""), *bars])
    lines = [f"![{figures_said}]({PICTURE.as_posix()})", ""]
    if slow:
        lines += ["Not drawn: " + ", ".join(f"{name}, {amount(low, high)}, {said}" for name, low, high, said in slow) + ".", ""]
    origin = [own["device"], *(f"{key} {own[key]}" for key in ("driver", "commit") if own.get(key)), own.get("date", "")]
    lines.append(f"<sub>{', '.join(part for part in origin if part)}; "
                 + "; ".join(note for note in own.get("notes", []) if note.startswith("the peer")) + "</sub>")
    if anchors:
        versions = dict.fromkeys(f"{row['name']}: {row['version']}" for row in anchors["rows"])
        lines.append(f"<sub>\\* {'; '.join(versions)}. {anchors['source']}</sub>")
    return "\n".join(lines) + "\n"


def main():
    arguments = tables.arguments_of(__doc__)
    found = tables.load(arguments.root)

    def body(part):
        wanted = {"shape": part["shape"], "batch": int(part["batch"]), "context": int(part["context"])}
        bars = figures(found, part["gpu"], wanted)
        if not bars:
            return (f"No decode step of {wanted['shape']} in bench/results/{part['gpu']} yet; `make gpu-check` on a machine "
                    "with a GPU writes it.\n")
        own = result_of(found, part["gpu"], "decode")
        tables.write_file(arguments, PICTURE, picture(*bars, wanted, own["device"]),
                          "differs from bench/results; run scripts/chart.py")
        return caption(*bars, own, result_of(found, "anchors", "anchors-decode"))

    tables.rewrite_parts(arguments, "chart.py", FILE, PART, "'<!-- chart: GPU SHAPE BATCH CONTEXT -->' with an "
                         "'<!-- end of chart -->'", body)


if __name__ == "__main__":
    main()
