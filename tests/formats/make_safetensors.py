#!/usr/bin/env python3
"""Writes tests/formats/fixtures/types.safetensors with the PyPI package safetensors: F32, F16 and BF16. The values are
those that tests/formats/safetensors_test.cpp expects.

    pip install 'safetensors>=0.8' numpy && python3 tests/formats/make_safetensors.py
"""
import pathlib

import numpy as np
import safetensors

FILE = pathlib.Path(__file__).parent / "fixtures" / "types.safetensors"


def main() -> None:
    values = np.array([[1, -2, 0.5], [65504, -0.0, 2.0**-24]], dtype=np.float32)
    bf16 = (np.array([1, -2, 3.140625, 0], dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)

    arrays = {  # numpy has no bfloat16, so the types are named beside the bits
        "a.f32": ("float32", values),
        "b.f16": ("float16", values.astype(np.float16)),
        "c.bf16": ("bfloat16", bf16),
        "d.scalar": ("float32", np.array(7, dtype=np.float32)),
    }
    tensors = {
        name: safetensors.TensorSpec(
            dtype=dtype, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, (dtype, array) in arrays.items()
    }
    safetensors.serialize_file(tensors, FILE, {"format": "np"})
    print(f"{FILE}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
