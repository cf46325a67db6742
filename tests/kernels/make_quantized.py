#!/usr/bin/env python3
"""Writes fixtures/quantized.json: random blocks of every tensor type, and their values by the `gguf` package.

Needs the PyPI packages gguf and numpy. Run it from anywhere:  python3 tests/kernels/make_quantized.py
"""
import json
import pathlib

import gguf
import numpy as np

ELEMENTS = 512
# The offsets, in bytes, of half-precision numbers in each block. These must be finite.
HALVES = {"F16": [0], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}


def blocks_of(name: str, random: np.random.Generator) -> np.ndarray:
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (ELEMENTS // elements, size), dtype=np.uint8)
    for at in HALVES.get(name, []):
        high = blocks[:, at + 1]
        high[(high & 0x7C) == 0x7C] &= 0xBF  # no infinities
        high[0] &= 0x83  # one subnormal number
    if name in ("F32", "BF16"):
        blocks[:, -1] = blocks[:, -1] & 0x80 | 0x3F
    return blocks


def main() -> None:
    random = np.random.default_rng(4)
    fixture = {}
    for name in ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K"]:
        blocks = blocks_of(name, random)
        values = gguf.quants.dequantize(blocks.reshape(1, -1), gguf.GGMLQuantizationType[name])
        values = values.astype("<f4").reshape(-1)
        assert values.size == ELEMENTS and np.isfinite(values).all(), name
        fixture[name] = {"bytes": blocks.tobytes().hex(), "values": values.tobytes().hex()}
    path = pathlib.Path(__file__).parent / "fixtures" / "quantized.json"
    path.write_text(json.dumps(fixture, indent=1) + "\n")
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
