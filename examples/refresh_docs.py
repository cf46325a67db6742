#!/usr/bin/env python3
"""Writes the output of every example into docs/examples.md, and its picture and that of a step into docs/images.

Usage: refresh_docs.py [path of the attacca command, build/attacca if none]. Runs on the host device; needs Graphviz.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMAND = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build" / "attacca")


def attacca(*arguments):
    return subprocess.run([COMMAND, *arguments, "--device", "host"], stdout=subprocess.PIPE, text=True, check=True).stdout


def replace(text, before, new):
    """Puts `new` into the ``` block that follows `before`."""
    pattern = re.escape(before) + r"(.*?```\w+\n).*?(```\n)"
    found = re.search(pattern, text, re.DOTALL)
    if not found:
        sys.exit(f"no block after {before!r}")
    return text[:found.start()] + before + found[1] + new + found[2] + text[found.end():]


page = ROOT / "docs" / "examples.md"
text = page.read_text(encoding="utf-8")
for name in re.findall(r"^build/attacca example (\w+)$", text, re.MULTILINE):
    attacca("graph", name, "--svg", "-o", str(ROOT / "docs" / "images" / f"{name}.svg"))
    text = replace(text, f"build/attacca example {name}\n```\n", attacca("example", name))
page.write_text(text, encoding="utf-8")
attacca("graph", "step", "--shape", "llama-1b", "--layers", "1", "--svg", "-o", str(ROOT / "docs" / "images" / "step.svg"))

page = ROOT / "docs" / "graph-json.md"
text = page.read_text(encoding="utf-8")
text = replace(text, "`build/attacca graph compressor --json --device host` prints:", attacca("graph", "compressor", "--json"))
page.write_text(text, encoding="utf-8")
