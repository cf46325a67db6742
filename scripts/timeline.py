#!/usr/bin/env python3
"""Draws a part of a trace as a picture: a lane for each track, a bar for each node, waits in grey, exchanges as red lines.

Usage: timeline.py TRACE.json PICTURE.svg [--from MS] [--for MS]
docs/images/pipeline.svg is `attacca example pipeline -o pipeline.json`, a part in which the machine interrupts nobody.
"""
import argparse
import json
import pathlib

import svg

LEFT, WIDTH, HIGH = 110, 750, 34
EXCHANGES = ("hand over", "give back")


def read(path):
    """The tracks that ran nodes, and their slices as (name, begin, end) in microseconds."""
    names, slices = {}, {}
    for event in json.loads(pathlib.Path(path).read_text())["traceEvents"]:
        if event["ph"] == "M" and event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"].split(",")[0]
        elif event["ph"] == "M" and event["name"] == "thread_name" and event["args"].get("ranges"):
            names.pop(event["pid"])
        elif event["ph"] == "X":
            slices.setdefault(event["pid"], []).append((event["name"], event["ts"], event["ts"] + event["dur"]))
    return [(names[pid], slices[pid]) for pid in sorted(slices) if pid in names]


def picture(tracks, first, length):
    title = "; ".join(f"{name}: " + ", then ".join(dict.fromkeys(slice[0] for slice in slices)) for name, slices in tracks)
    drawing = svg.Drawing(LEFT + WIDTH + 20, 46 + (HIGH + 14) * len(tracks) + 34, title)
    x_of = lambda at: LEFT + WIDTH * min(max((at - first) / length, 0), 1)
    for number, (name, slices) in enumerate(tracks):
        top = 40 + number * (HIGH + 14)
        drawing.text(16, top + HIGH / 2 + 5, name, "ink", 13, weight=600)
        drawing.rectangle(LEFT, top, WIDTH, HIGH, "lane", 2)
        for node, begin, end in slices:
            if end < first or begin > first + length:
                continue
            if node in EXCHANGES:
                drawing.line([(x_of(begin), top - 5), (x_of(begin), top + HIGH + 5)], "floor")
            else:
                kind = "peer" if node.startswith("wait") else "own"
                drawing.rectangle(x_of(begin), top + 3, max(x_of(end) - x_of(begin), 0.3), HIGH - 6, kind, 1)
    bottom = 40 + len(tracks) * (HIGH + 14) + 16
    for x, kind, text in ((LEFT, "own", "computes"), (LEFT + 110, "peer", "waits")):
        drawing.rectangle(x, bottom - 10, 12, 12, kind, 1)
        drawing.text(x + 18, bottom, text, "soft", 12)
    drawing.line([(LEFT + 200, bottom - 12), (LEFT + 200, bottom + 4)], "floor")
    drawing.text(LEFT + 208, bottom, "hands a slot over, or gives it back", "soft", 12)
    drawing.text(LEFT + WIDTH, 26, f"{length / 1000:g} ms", "soft", 12, "end")
    drawing.arrow([(LEFT, 22), (LEFT + WIDTH - 60, 22)])
    return drawing.render()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="first", type=float, default=0, help="milliseconds after the trace begins")
    parser.add_argument("--for", dest="length", type=float, default=5, help="milliseconds")
    chosen = parser.parse_args()
    pathlib.Path(chosen.picture).write_text(picture(read(chosen.trace), chosen.first * 1000, chosen.length * 1000))


if __name__ == "__main__":
    main()
