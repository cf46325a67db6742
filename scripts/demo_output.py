#!/usr/bin/env python3
"""Writes what `make demo` prints on this machine into README.md, all of it from one run. Run it by hand after a change
to the demo; build first."""
import os
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BEGIN, END = "<!-- demo -->\n", "<!-- end of demo -->"


def demo_command():
    """The last line of the target demo."""
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        lines = file.read().split("demo: ", 1)[1].split("\n\n", 1)[0].splitlines()
    return lines[-1].strip().lstrip("@")


def main():
    run = subprocess.run(demo_command(), shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    story = "\n".join(textwrap.fill(line, 118) for line in run.stdout.strip().splitlines())
    figures = "\n".join(
        textwrap.fill(line, 118, subsequent_indent=" " * 10) for line in run.stderr.strip().splitlines())
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as file:
        readme = file.read()
    before, rest = readme.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}```text\n{story}\n\n{figures}\n```\n{END}{after}")
    print("README.md: demo written")


if __name__ == "__main__":
    sys.exit(main())
