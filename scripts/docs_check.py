#!/usr/bin/env python3
"""Runs the commands that README.md and docs/*.md show, and fails when one of them fails or a link leads nowhere.

Usage: docs_check.py [--root FOLDER] [--list | --links] [PAGE]...
In a ```sh block every line runs (a leading "$ " is dropped); in a ```console block the lines that start with "$ ", and
the "> " lines that continue them. Each block is one `bash -e` in the repository's root. A block or a line is left out
when the line before it is `<!-- not run: reason -->`. Links to files of the repository, and to headings in them, are
checked in every page, those of other folders too. --links checks only them, --list prints the commands and runs nothing.
"""
import argparse
import pathlib
import re
import subprocess
import sys

NOT_RUN = re.compile(r"^\s*<!-- not run: (.+?) -->\s*$")
FENCE = re.compile(r"^\s*```(\S*)\s*$")
LINK = re.compile(r"(?<!`)\]\((?!https?:|mailto:)([^)\s]*)\)")
TIMEOUT_S = 1800
# Prints each command before it runs, and names the one that failed.
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


def prose(text):
    """Lines outside ``` blocks, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def anchors(text):
    """GitHub's link names of a page's headings."""
    found = {}
    for _, line in prose(text):
        if heading := re.match(r"^#+ +(.*?)\s*$", line):
            name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
            count = found[name] = found.get(name, -1) + 1
            if count:
                found[f"{name}-{count}"] = 0
    return found


def broken_links(root, pages):
    for path in pages:
        for number, line in prose(path.read_text(encoding="utf-8")):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                name, _, anchor = target.partition("#")
                file = (path.parent / name).resolve() if name else path
                where = f"{path.relative_to(root)}:{number}"
                if not file.exists():
                    yield f"{where}: there is no {name}"
                elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
                    yield f"{where}: {file.relative_to(root.resolve())} has no heading '{anchor}'"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="print the commands and run nothing")
    what.add_argument("--links", action="store_true", help="check the links and run nothing")
    parser.add_argument("pages", metavar="PAGE", nargs="*", help="only these, relative to the root")
    arguments = parser.parse_args()

    root, ran = arguments.root, 0
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    others = [root / "CONTRIBUTING.md", *sorted(root.glob("*/README.md"))]
    if arguments.pages:
        pages, others = [root / page for page in arguments.pages], []
    failures = list(broken_links(root, [path for path in pages + others if path.exists()]))
    for path in [] if arguments.links else pages:
        if not path.exists():
            continue
        for line, commands, reason in blocks(path.read_text(encoding="utf-8")):
            where = f"{path.relative_to(root)}:{line}"
            print(f"== {where}" + (f" (not run: {reason})" if reason else ""), flush=True)
            if reason or arguments.list:
                print("\n".join(commands))
                continue
            ran += 1
            try:
                code = subprocess.run(["bash", "-c", PRELUDE + "\n".join(commands) + "\n"], cwd=root,
                                      stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False).returncode
            except subprocess.TimeoutExpired:
                code = f"over {TIMEOUT_S} s"
            if code != 0:
                failures.append(f"{where}: exit status {code}")
    for failure in failures:
        print(failure)
    print(f"{len(failures)} links lead nowhere" if arguments.links else f"{ran} blocks run, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
