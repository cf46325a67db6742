#!/usr/bin/env python3
"""An attacca graph on PyTorch's current stream, between PyTorch's own kernels, without a synchronize in between.

Each round PyTorch computes x = x * 3 + 1, attacca x = x * 5 + 7, PyTorch x = x % 65521. The rounds are enqueued at once,
on PyTorch's default stream (the legacy stream) and on one of its own; a step that ran too early or too late gives another
result. Then a capture of PyTorch's records attacca's kernel, and attacca adopts and runs a graph that PyTorch captured.

    python tests/oracle/torch_stream.py build/cuda/tests/libattacca_torch_guest.so

Exits with 0 where all is right, 1 where it is not, 77 where torch or a GPU is missing. CTest runs it as torch_stream with
the Python that CMake found (-DPython3_EXECUTABLE=...).
"""
import ctypes
import sys

SKIPPED = 77
COUNT = 1 << 22
ROUNDS = 40
MODULUS = 65521


def load(path):
    library = ctypes.CDLL(path)
    pointer, integer, count = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint64
    signatures = {
        "guest_error": (ctypes.c_char_p, []),
        "guest_make": (pointer, [integer, pointer, count, integer, integer]),
        "guest_launch": (integer, [pointer, pointer]),
        "guest_set_shift": (integer, [pointer, pointer, integer, count]),
        "guest_enqueue": (integer, [integer, pointer, pointer, count, integer]),
        "guest_adopt": (pointer, [integer, pointer]),
        "guest_free": (None, [pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Guest:
    """The guest library. Its failures become exceptions."""

    def __init__(self, path):
        self.library = load(path)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        makes = name in ("guest_make", "guest_adopt")
        if (makes and not result) or (not makes and result):
            raise RuntimeError(f"{name}: {self.library.guest_error().decode()}")
        return result

    def free(self, handle):
        self.library.guest_free(handle)


def expected_after(x, rounds, shifts):
    for at in range(rounds):
        x = ((x * 3 + 1) * 5 + shifts(at)) % MODULUS
    return x


def check_stream(torch, guest, device, stream, name):
    x = torch.arange(COUNT, dtype=torch.int32, device="cuda") % MODULUS
    first = x.cpu().to(torch.int64)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        handle = guest.call("guest_make", device, x.data_ptr(), COUNT, 5, 7)
        for at in range(ROUNDS):
            x.mul_(3).add_(1)
            guest.call("guest_set_shift", handle, x.data_ptr(), 7 + at, COUNT)
            guest.call("guest_launch", handle, stream.cuda_stream)
            x.remainder_(MODULUS)
        found = x.cpu().to(torch.int64)  # waits for this stream
    guest.free(handle)
    wrong = int((found != expected_after(first, ROUNDS, lambda at: 7 + at)).sum())
    print(f"{name}: {ROUNDS} rounds over {COUNT} values, {wrong} wrong")
    return wrong == 0


def check_capture(torch, guest, device):
    x = torch.ones(COUNT, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        x.add_(1)
        guest.call("guest_enqueue", device, torch.cuda.current_stream().cuda_stream, x.data_ptr(), COUNT, 3)
        x.add_(2)
    for _ in range(3):
        graph.replay()
    wrong = int((x != (((1 + 1) * 3 + 2 + 1) * 3 + 2 + 1) * 3 + 2).sum())
    print(f"a kernel of attacca's in PyTorch's capture: {wrong} wrong")
    return wrong == 0


def check_adoption(torch, guest, device):
    try:
        graph = torch.cuda.CUDAGraph(keep_graph=True)
    except TypeError:
        print(f"adoption: not tried, torch {torch.__version__} hands out no cudaGraph_t")
        return True
    x = torch.ones(COUNT, dtype=torch.int32, device="cuda")
    y = torch.zeros(COUNT, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        x.mul_(3).add_(1)
        y.copy_(x)
        x.zero_()
    handle = guest.call("guest_adopt", device, graph.raw_cuda_graph())
    stream = torch.cuda.current_stream()
    guest.call("guest_launch", handle, stream.cuda_stream)
    x.add_(y)
    guest.call("guest_launch", handle, stream.cuda_stream)
    wrong = int((y != 13).sum()) + int((x != 0).sum())
    torch.cuda.synchronize()
    guest.free(handle)
    print(f"a graph that PyTorch captured, adopted: {wrong} wrong")
    return wrong == 0


def main():
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    try:
        import torch
    except ImportError:
        print("skipped: torch is not installed")
        return SKIPPED
    if not torch.cuda.is_available():
        print("skipped: torch sees no GPU")
        return SKIPPED
    device = torch.cuda.current_device()
    guest = Guest(sys.argv[1])
    results = [
        check_stream(torch, guest, device, torch.cuda.current_stream(), "PyTorch's default stream"),
        check_stream(torch, guest, device, torch.cuda.Stream(), "a stream of PyTorch's"),
        check_capture(torch, guest, device),
        check_adoption(torch, guest, device),
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
