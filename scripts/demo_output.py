#!/usr/bin/env python3
"""Writes what `make demo` prints on this machine, all of it from one run, into docs/engine.md, and six lines of it into
README.md. Run it by hand after a change to the demo; build first.

Usage: demo_output.py [--root FOLDER]
The text stands between `<!-- demo -->` and `<!-- end of demo -->` in each file and is rewritten whole.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import textwrap

PART = re.compile(r"(?<=<!-- demo -->\n).*?(?=<!-- end of demo -->)", re.DOTALL)
FIGURES = ("prompt", "decode", "floor")  # the lines of --stats that README.md shows
WIDTH = 118


def demo_command(makefile):
    """The last line of the target demo."""
    return makefile.split("demo: ", 1)[1].split("\n\n", 1)[0].splitlines()[-1].strip().lstrip("@")


def whole(story, figures):
    told = [textwrap.fill(line, WIDTH) for line in story.strip().splitlines()]
    return "\n".join([*told, "", *(textwrap.fill(line, WIDTH, subsequent_indent=" " * 10)
                                   for line in figures.strip().splitlines())])


def in_short(story, figures):
    """The story's beginning and end, and the figures of its speed."""
    lines = [line for line in story.strip().splitlines() if line.strip()]
    shown = [line for line in figures.strip().splitlines() if line.split(None, 1)[0] in FIGURES]
    return "\n".join([textwrap.shorten(lines[0], WIDTH, placeholder=" …"), "…", textwrap.shorten(lines[-1], WIDTH), *shown])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    command = demo_command((root / "Makefile").read_text(encoding="utf-8"))
    run = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True, check=True)
    for name, part in ("README.md", in_short), (pathlib.Path("docs") / "engine.md", whole):
        text = (root / name).read_text(encoding="utf-8")
        if not PART.search(text):
            sys.exit(f"{name}: no '<!-- demo -->' with an '<!-- end of demo -->'")
        body = f"```text\n{part(run.stdout, run.stderr)}\n```\n"
        (root / name).write_text(PART.sub(lambda _: body, text), encoding="utf-8")
        print(f"{name}: demo written")


if __name__ == "__main__":
    main()
