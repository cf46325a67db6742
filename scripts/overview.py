#!/usr/bin/env python3
"""Draws docs/images/overview.svg: what attacca is, on one picture.

Usage: overview.py [--check] [--root FOLDER]
--check writes nothing and fails where the file is stale.
"""
import pathlib
import sys

import svg
import tables

FILE = pathlib.Path("docs") / "images" / "overview.svg"
TITLE = ("Graphs: code, capture and loops become a graph as data, which is validated, lowered and run by the host or by CUDA. "
         "The engine: requests are scheduled, a step graph runs, tokens come out and are committed before the next step.")


def picture():
    drawing = svg.Drawing(880, 368, TITLE)
    drawing.rectangle(16, 16, 848, 154, "lane")
    drawing.text(32, 41, "attacca: a C++ library for CUDA graphs", "ink", 14, weight=600)
    top, high = 60, 92
    boxes = [(32, 128, ["your code", "build or capture", "loops"]), (196, 128, ["Graph", "plain data", "no driver call"]),
             (360, 128, ["validate", "names the node", "and the remedy"]),
             (524, 128, ["lower", "children inlined", "order fixed"])]
    for x, width, lines in boxes:
        drawing.box(x, top, width, high, lines)
    for x in (160, 324, 488):
        drawing.arrow([(x, top + high / 2), (x + 36, top + high / 2)])
    drawing.box(704, top, 144, 42, ["host", "threads"])
    drawing.box(704, top + 50, 144, 42, ["cuda", "cudaGraphExec_t"])
    drawing.line([(652, 106), (678, 106)])
    drawing.arrow([(678, 106), (678, 81), (704, 81)])
    drawing.arrow([(678, 106), (678, 131), (704, 131)])

    drawing.rectangle(16, 196, 848, 156, "lane")
    drawing.text(32, 220, "attacca::llm: an LLM inference engine on it", "ink", 14, weight=600)
    top, high = 236, 76
    boxes = [(32, 128, ["requests", "chat template", "tokenizer"]), (196, 128, ["schedule", "slots, KV pages", "prefix cache"]),
             (360, 128, ["step graph", "one per size", "fixed addresses"]),
             (524, 128, ["tokens", "sampled", "on the device"]), (704, 144, ["text", "streamed"])]
    for x, width, lines in boxes:
        drawing.box(x, top, width, high, lines, "step")
    for x, end in ((160, 196), (324, 360), (488, 524), (652, 704)):
        drawing.arrow([(x, top + high / 2), (end, top + high / 2)])
    drawing.arrow([(588, 312), (588, 334), (260, 334), (260, 312)])
    drawing.text(424, 346, "commit; the next step is planned while this one runs", "soft", 11.5, "middle")
    drawing.arrow([(424, 236), (424, 184), (260, 184), (260, 152)], "line dash")
    drawing.text(434, 188, "each step size is a graph", "soft", 11.5)
    return drawing.render()


if __name__ == "__main__":
    arguments = tables.arguments_of(__doc__)
    sys.exit(tables.write_file(arguments, FILE, picture(), "is not what scripts/overview.py draws; run it"))
