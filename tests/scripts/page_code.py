#!/usr/bin/env python3
"""Checks that a compiled file contains the C++ code of a page, line by line and in the same order.

    page_code.py PAGE SOURCE

Indentation may differ. Exits with 1 and the first block that is not there.
"""
import re
import sys


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def main():
    page, source = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        compiled = "\n".join(lines_of(file.read()))
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"```cpp\n(.*?)```", file.read(), re.DOTALL)
    if not blocks:
        print(f"{page} has no C++ code")
        return 1
    for block in blocks:
        if "\n".join(lines_of(block)) not in compiled:
            print(f"{page} has code that {source} has not:\n{block}")
            return 1
    print(f"{len(blocks)} blocks of {page} are in {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
