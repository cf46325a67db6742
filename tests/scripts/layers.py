#!/usr/bin/env python3
"""Checks that each folder includes only what the layer table allows.

Usage: layers.py <repository root>. Reads the #include lines of include/ and src/ and names the file and line of every
include that points the wrong way. The table is the one in docs/ARCHITECTURE.md; a folder missing here is an error.
"""
import pathlib
import re
import sys

# folder under src/ -> the folders it may include, besides itself and the public headers.
BACKENDS = ["backend", "backend/host", "backend/cuda"]
ALLOWED = {
    "core": [],
    "device": ["core"],
    "graph": ["core"],
    "backend": ["core", "device", "graph", "backend/host", "backend/cuda"],
    "backend/host": ["core", "device", "graph", "backend"],
    "backend/cuda": ["core", "device", "graph", "backend"],
    "nested": ["core", "device", "graph", *BACKENDS],
    "kernels": ["core", "device", "graph"],
    "loop": ["core", "graph"],
    "workers": ["core", "device", "graph"],
    "comm": ["core", "device", *BACKENDS],
    "formats": ["core", "kernels"],
    "text": ["core", "formats"],
    "model": ["core", "graph", "kernels", "formats"],
    "step": ["core", "graph", "kernels", "model"],
    "schedule": ["core"],
    "engine": ["core", "device", "graph", *BACKENDS, "kernels", "comm", "formats", "text", "model", "step", "schedule"],
    "instruments": ["core", "device", "graph", *BACKENDS, "kernels", "comm", "model"],
    "server": ["core", "engine"],
}
# Folders that must build on a machine that has never seen CUDA.
WITHOUT_CUDA = {"core", "graph", "backend/host"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(r"^(cuda|nvtx|cooperative_groups|cublas|nccl|cupti)")
SOURCES = {".hpp", ".cuh", ".cpp", ".cu"}


def folder_of(path):
    """The layer of a path relative to src/: the longest entry of the table that contains it, or None."""
    parts = path.parent.parts
    for length in range(len(parts), 0, -1):
        name = "/".join(parts[:length])
        if name in ALLOWED:
            return name
    return None


def check_public(bracket, target):
    if bracket == '"':
        return f'"{target}": a public header includes only <attacca/...>, the standard library and CUDA'
    if "/" in target and not re.match(r"^(attacca|cuda)/", target):
        return f"<{target}>: a public header includes no other library"
    return None


def check_source(layer, bracket, target):
    if layer in WITHOUT_CUDA and CUDA_HEADER.match(target):
        return f"{target}: src/{layer} includes no CUDA header"
    if bracket == "<" or "/" not in target:
        return None  # the standard library, a public header, another library, or a neighbour
    other = folder_of(pathlib.PurePosixPath(target))
    if other is None or other == layer or other in ALLOWED[layer]:
        return None
    allowed = ", ".join(ALLOWED[layer]) or "nothing but the standard library"
    return f'"{target}": src/{layer} may use {allowed}'


def problems(root):
    root = pathlib.Path(root)
    for base in ("include", "src"):
        for path in sorted((root / base).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            layer = None
            if base == "src":
                layer = folder_of(pathlib.PurePosixPath(path.relative_to(root / "src").as_posix()))
                if layer is None:
                    yield f"{path.relative_to(root)}:1: this folder is not in the layer table"
                    continue
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                bracket, target = match.groups()
                wrong = check_source(layer, bracket, target) if layer else check_public(bracket, target)
                if wrong:
                    yield f"{path.relative_to(root)}:{number}: {wrong}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = list(problems(sys.argv[1]))
    for problem in found:
        print(problem)
    print(f"{len(found)} includes against the layers" if found else "every include follows the layers")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
