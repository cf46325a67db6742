#!/usr/bin/env python3
"""Checks that each folder includes only what the table of folders in docs/ARCHITECTURE.md allows.

Usage: layers.py <repository root>. Reads the #include lines of include/ and src/ and names the file and line of every
include that points the wrong way. A row of the table with a folder of src/ reads

    | `src/graph/` | what lives there; "No CUDA header" is a rule as well | core |

The third cell lists folders of src/ by their path under it, separated by commas; `all above` is every one in the rows
before, `–` none. A folder may always include itself and the public headers. A folder without a row is an error; a row
without a folder is not.
"""
import pathlib
import re
import sys

PAGE = pathlib.PurePosixPath("docs", "ARCHITECTURE.md")
ROW = re.compile(r"^\| *`src/([^`]+?)/?` *\|(.*)\|([^|]*)\| *$")
WITHOUT_CUDA = "No CUDA header"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"^(cuda|nvtx|cooperative_groups|cublas|nccl|cupti)")
SOURCES = {".hpp", ".cuh", ".cpp", ".cu"}


class Table:
    """What folders may include: `allowed` by folder, and those `without_cuda`."""

    def __init__(self, text):
        self.allowed, self.without_cuda, self.problems = {}, set(), []
        lines = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not (row := ROW.match(line)):
                continue
            folder, what, uses = row.groups()
            if folder in self.allowed:
                self.problems.append(f"{PAGE}:{number}: a second row of src/{folder}")
            names = [name.strip() for name in uses.split(",") if name.strip() not in ("", "–")]
            above = [other for other in self.allowed] if "all above" in names else []
            self.allowed[folder] = list(dict.fromkeys([*above, *(name for name in names if name != "all above")]))
            lines[folder] = number
            if WITHOUT_CUDA in what:
                self.without_cuda.add(folder)
        for folder, names in self.allowed.items():
            for name in names:
                if name not in self.allowed:
                    self.problems.append(f"{PAGE}:{lines[folder]}: src/{folder} may use '{name}', which has no row")
        if not self.allowed:
            self.problems.append(f"{PAGE}:1: no table of folders")

    def folder_of(self, path):
        """The folder of a path relative to src/: the longest one of the table that contains it, or None."""
        parts = path.parent.parts
        for length in range(len(parts), 0, -1):
            name = "/".join(parts[:length])
            if name in self.allowed:
                return name
        return None

    def check(self, folder, bracket, target):
        if folder in self.without_cuda and CUDA_HEADER.match(target):
            return f"{target}: src/{folder} includes no CUDA header"
        if bracket == "<" or "/" not in target:
            return None  # the standard library, a public header, another library, or a neighbour
        other = self.folder_of(pathlib.PurePosixPath(target))
        if other is None or other == folder or other in self.allowed[folder]:
            return None
        allowed = ", ".join(self.allowed[folder]) or "nothing but the standard library"
        return f'"{target}": src/{folder} may use {allowed}'


def check_public(bracket, target):
    if bracket == '"':
        return f'"{target}": a public header includes only <attacca/...>, the standard library and CUDA'
    if "/" in target and not re.match(r"^(attacca|cuda)/", target):
        return f"<{target}>: a public header includes no other library"
    return None


def problems(root):
    root = pathlib.Path(root)
    table = Table((root / PAGE).read_text(encoding="utf-8"))
    yield from table.problems
    for base in ("include", "src"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            folder = None
            if base == "src":
                folder = table.folder_of(pathlib.PurePosixPath(path.relative_to(root / "src").as_posix()))
                if folder is None:
                    yield f"{path.relative_to(root)}:1: this folder is not in the table of {PAGE}"
                    continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                wrong = table.check(folder, *match.groups()) if folder else check_public(*match.groups())
                if wrong:
                    yield f"{path.relative_to(root)}:{number}: {wrong}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(problems(sys.argv[1]))
    for problem in found:
        print(problem)
    print(f"{len(found)} problems with the layers" if found else "every include follows the layers")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
