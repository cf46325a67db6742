#!/usr/bin/env python3
"""Writes tests/formats/fixtures/metadata.gguf with the PyPI package gguf: every type of metadata, and tensors of every
type that attacca reads. The values are those that tests/formats/gguf_test.cpp expects.

    pip install gguf numpy && python3 tests/formats/make_gguf.py
"""
import pathlib

import gguf
import numpy as np

FILE = pathlib.Path(__file__).parent / "fixtures" / "metadata.gguf"


def add_metadata(writer: gguf.GGUFWriter) -> None:
    writer.add_uint8("test.uint8", 200)
    writer.add_int8("test.int8", -100)
    writer.add_uint16("test.uint16", 60000)
    writer.add_int16("test.int16", -30000)
    writer.add_uint32("test.uint32", 4000000000)
    writer.add_int32("test.int32", -2000000000)
    writer.add_uint64("test.uint64", 1 << 63)
    writer.add_int64("test.int64", -(1 << 62))
    writer.add_float32("test.float32", 1.5)
    writer.add_float64("test.float64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "naïve ▁ text")
    writer.add_array("test.array.int", [1, -2, 3])
    writer.add_array("test.array.float", [0.5, -0.25])
    writer.add_array("test.array.bool", [True, False])
    writer.add_array("test.array.string", ["a", "bc", "ünï"])


def add_tensors(writer: gguf.GGUFWriter) -> None:
    ramp = np.arange(2 * 256, dtype=np.float32).reshape(2, 256) / 64 - 4
    writer.add_tensor("ramp.f32", ramp)
    writer.add_tensor("ramp.f16", ramp.astype(np.float16))
    writer.add_tensor("vector.f32", np.array([1, 2, 3], dtype=np.float32))
    kinds = gguf.GGMLQuantizationType
    for kind in (kinds.BF16, kinds.Q8_0, kinds.Q4_0, kinds.Q4_1):
        writer.add_tensor(f"ramp.{kind.name.lower()}", gguf.quants.quantize(ramp, kind), raw_dtype=kind)
    for kind in (kinds.Q4_K, kinds.Q5_K, kinds.Q6_K):  # the package cannot make these, so any bytes will do
        row_bytes = gguf.GGML_QUANT_SIZES[kind][1]
        blocks = (np.arange(2 * row_bytes) % 251).astype(np.uint8).reshape(2, row_bytes)
        writer.add_tensor(f"ramp.{kind.name.lower()}", blocks, raw_dtype=kind)


def main() -> None:
    writer = gguf.GGUFWriter(FILE, "test")
    add_metadata(writer)
    add_tensors(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"{FILE}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
