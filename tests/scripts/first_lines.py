#!/usr/bin/env python3
"""Checks that every C++ and CUDA file says in its first lines what it is for.

Usage: first_lines.py <repository root>. The first line is a comment of at least four words; pointing to another file
("x.cpp: see x.hpp.") does not say it. Code that must not compile has its expected message there and is left out.
"""
import pathlib
import re
import sys

FOLDERS = ("include", "src", "tools", "bench", "examples", "lab", "tests")
SOURCES = {".hpp", ".cpp", ".cuh", ".cu"}
NAME = re.compile(r"^// ([\w-]+\.(?:hpp|cpp|cuh|cu): )?")
POINTER = re.compile(r"^(?:see|the kernels? of|tests? of) [\w/-]+\.(?:hpp|cuh)\.?$", re.IGNORECASE)


def opening(text):
    """The comment that a file begins with, as one line without the file's name, or None."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line)
    if not lines:
        return None
    return " ".join([NAME.sub("", lines[0], count=1)] + [line[2:].strip() for line in lines[1:]]).strip()


def problem(text):
    said = opening(text)
    if said is None:
        return "does not begin with a comment"
    if POINTER.match(said):
        return f"says no more than '{said}'"
    if len(said.split()) < 4:
        return f"says only '{said}'"
    return None


def problems(root):
    root = pathlib.Path(root)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root)
            if path.suffix in SOURCES and "compile_fail" not in name.parts:
                wrong = problem(path.read_text(encoding="utf-8"))
                if wrong:
                    yield f"{name}:1: {wrong}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(problems(sys.argv[1]))
    for one in found:
        print(one)
    print(f"{len(found)} files do not say what they are for" if found else "every file says what it is for")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
