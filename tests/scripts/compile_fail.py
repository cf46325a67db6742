#!/usr/bin/env python3
"""Checks that a file compiles with -DCORRECT, and that without it the compiler refuses the file for the expected reason.

Usage: compile_fail.py --source FILE --compiler C++ -- <flags...>
The file's first line is `// expect: <regular expression>`, searched for in the compiler's output.
"""
import argparse
import os
import re
import subprocess
import sys


def compile_source(arguments, *more):
    return subprocess.run([arguments.compiler, *arguments.flags, *more, arguments.source],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C"})  # plain quotes in messages


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("flags", nargs="*")
    arguments = parser.parse_args()

    with open(arguments.source, encoding="utf-8") as file:
        expectation = re.match(r"//\s*expect:\s*(.+)", file.readline())
    if not expectation:
        sys.exit(f"{arguments.source}:1: the first line must be '// expect: <regular expression>'")

    right = compile_source(arguments, "-DCORRECT")
    if right.returncode != 0:
        sys.exit(f"{arguments.source} with -DCORRECT does not compile:\n{right.stdout}")
    wrong = compile_source(arguments)
    if wrong.returncode == 0:
        sys.exit(f"{arguments.source} compiles, and must not")
    pattern = expectation.group(1).strip()
    if not re.search(pattern, wrong.stdout):
        sys.exit(f"{arguments.source} is refused, but not with /{pattern}/:\n{wrong.stdout}")
    print(f"refused as expected: /{pattern}/")


if __name__ == "__main__":
    main()
