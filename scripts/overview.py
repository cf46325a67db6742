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
    drawing = svg.Drawing(880, 318, TITLE)
    drawing.rectangle(12, 12, 856, 132, "lane")
    drawing.text(28, 35, "attacca: a C++ library for CUDA graphs", "ink", 14, weight=600)
    top, high = 48, 82
    middle = top + high / 2
    boxes = [(28, 132, ["your code", "build or capture", "loops"]), (196, 128, ["Graph", "plain data", "no driver call"]),
             (360, 128, ["validate", "names the node", "and the remedy"]),
             (524, 128, ["lower", "children inlined", "order fixed"])]
    for x, width, lines in boxes:
        drawing.box(x, top, width, high, lines)
    for x in (160, 324, 488):
        drawing.arrow([(x, middle), (x + 36, middle)])
    drawing.box(704, top, 148, 38, ["host", "threads"])
    drawing.box(704, top + 44, 148, 38, ["cuda", "cudaGraphExec_t"])
    drawing.line([(652, middle), (678, middle)])
    drawing.arrow([(678, middle), (678, top + 19), (704, top + 19)])
    drawing.arrow([(678, middle), (678, top + 63), (704, top + 63)])

    drawing.rectangle(12, 168, 856, 138, "lane")
    drawing.text(28, 190, "attacca::llm: an LLM inference engine on it", "ink", 14, weight=600)
    top, high = 202, 68
    middle, bottom = top + high / 2, top + high
    boxes = [(28, 132, ["requests", "chat template", "tokenizer"]), (196, 128, ["schedule", "slots, KV pages", "prefix cache"]),
             (360, 128, ["step graph", "one per size", "fixed addresses"]),
             (524, 128, ["tokens", "sampled", "on the device"]), (704, 148, ["text", "streamed"])]
    for x, width, lines in boxes:
        drawing.box(x, top, width, high, lines, "step")
    for x, end in ((160, 196), (324, 360), (488, 524), (652, 704)):
        drawing.arrow([(x, middle), (end, middle)])
    drawing.arrow([(588, bottom), (588, bottom + 16), (260, bottom + 16), (260, bottom)])
    drawing.text(424, bottom + 30, "commit; the next step is planned while this one runs", "soft", 11.5, "middle")
    drawing.arrow([(424, top), (424, 156), (260, 156), (260, 130)], "line dash")
    drawing.text(434, 160, "each step size is a graph", "soft", 11.5)
    return drawing.render()


if __name__ == "__main__":
    arguments = tables.arguments_of(__doc__)
    sys.exit(tables.write_file(arguments, FILE, picture(), "is not what scripts/overview.py draws; run it"))
