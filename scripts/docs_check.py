#!/usr/bin/env python3
"""Runs the commands that README.md and docs/*.md show, and fails when one of them fails.

Usage: docs_check.py [--root FOLDER] [--list]
In a ```sh block every line runs (a leading "$ " is dropped); in a ```console block the lines that start with "$ ", and
the "> " lines that continue them. Each block is one `bash -e` in the repository's root. A block or a line is left out
when the line before it is `<!-- not run: reason -->`.
"""
import argparse
import pathlib
import re
import subprocess
import sys

NOT_RUN = re.compile(r"^\s*<!-- not run: (.+?) -->\s*$")
FENCE = re.compile(r"^\s*```(\S*)\s*$")
TIMEOUT_S = 1800
# Prints each command before it runs, and the one that failed.
PRELUDE = "set -eu -o pipefail; trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR; set -v\n"


def blocks(text):
    """Yields (line number, commands, reason): reason is None for a block that runs."""
    language, start, commands, reason, skip_line, continues = None, 0, [], None, False, False
    previous = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and language is None:
            language, start, commands, skip_line, continues = fence[1] or "text", number, [], False, False
            note = NOT_RUN.match(previous)
            reason = note[1] if note else None
        elif fence:
            if language in ("sh", "console") and commands:
                yield start, commands, reason
            language = None
        elif language in ("sh", "console"):
            if NOT_RUN.match(line):
                skip_line = True
            elif language == "sh" or line.startswith("$ "):
                continues = not skip_line
                if not skip_line:
                    commands.append(line[2:] if line.startswith("$ ") else line)
                skip_line = False
            elif continues and line.startswith("> "):
                commands.append(line[2:])
            else:
                continues = False
        if line.strip():
            previous = line
    if language is not None:
        raise ValueError(f"line {start}: a ``` block that does not end")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    arguments = parser.parse_args()

    failures, ran = [], 0
    for path in [arguments.root / "README.md", *sorted((arguments.root / "docs").glob("*.md"))]:
        if not path.exists():
            continue
        for line, commands, reason in blocks(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(arguments.root)}:{line}"
            print(f"== {where}" + (f" (not run: {reason})" if reason else ""), flush=True)
            if reason or arguments.list:
                print("\n".join(commands))
                continue
            ran += 1
            try:
                code = subprocess.run(["bash", "-c", PRELUDE + "\n".join(commands) + "\n"], cwd=arguments.root,
                                      stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False).returncode
            except subprocess.TimeoutExpired:
                code = f"over {TIMEOUT_S} s"
            if code != 0:
                failures.append(f"{where}: exit status {code}")
    for failure in failures:
        print(failure)
    print(f"{ran} blocks run, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
