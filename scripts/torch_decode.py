#!/usr/bin/env python3
"""The peer of `attacca bench decode` and `prefill`: the same steps in PyTorch, plain bf16 with random weights.

Usage: torch_decode.py REQUEST
REQUEST is JSON: {"device": "cuda:0", "samples": 11, "wants_matrix_rate": false, "cases": [{"sizes": {...}, "batch": 8,
"context": 512, "tokens": 1}]}. A case computes `tokens` new tokens of each of `batch` sequences that have `context`
tokens behind them. Printed are JSON lines: {"torch": version}, then for each case and way of running it {"case": index,
"peer": "PyTorch eager" or "PyTorch CUDA graph", "median": microseconds}, or an "error" instead of the median, then
{"matrix_rate": FLOP/s of a large product}. {"missing": reason} is all there is where PyTorch or its GPU is not here.
"""
import gc
import json
import statistics
import sys
import time

SAMPLE_US = 4000  # a sample is as many successive steps as fit into this time
MOST_STEPS = 16
MATRIX_SIDE = 8192
DEVIATION = 0.02


def say(**line):
    print(json.dumps(line), flush=True)


class Model:
    """Random weights in the sizes of a model. Weights that a layer reads together are adjacent in memory."""

    def __init__(self, sizes, device, dtype):
        self.sizes, self.device, self.dtype = sizes, device, dtype
        self.heads, self.kv_heads, self.head_size = sizes["heads"], sizes["kv_heads"], sizes["head_size"]
        hidden, feed_forward = sizes["hidden"], sizes["feed_forward"]
        self.widths = [self.heads * self.head_size, self.kv_heads * self.head_size, self.kv_heads * self.head_size]
        self.embedding = self.random(sizes["vocabulary"], hidden)
        self.head = self.embedding if sizes["is_tied"] else self.random(sizes["vocabulary"], hidden)
        self.norm = self.ones(hidden)
        self.layers = [{
            "attention_norm": self.ones(hidden),
            "qkv": self.random(sum(self.widths), hidden),
            "query_norm": self.ones(self.head_size) if sizes["has_qk_norm"] else None,
            "key_norm": self.ones(self.head_size) if sizes["has_qk_norm"] else None,
            "output": self.random(hidden, self.widths[0]),
            "feed_forward_norm": self.ones(hidden),
            "gate_up": self.random(2 * feed_forward, hidden),
            "down": self.random(hidden, feed_forward),
        } for _ in range(sizes["layers"])]
        halves = torch.arange(0, self.head_size, 2, device=device, dtype=torch.float32)
        self.frequencies = sizes["rope_theta"] ** (-halves / self.head_size)

    def random(self, *shape):
        return torch.empty(shape, device=self.device, dtype=self.dtype).normal_(0, DEVIATION)

    def ones(self, count):
        return torch.ones(count, device=self.device, dtype=self.dtype)

    def normed(self, x, weight):
        return F.rms_norm(x, weight.shape, weight, self.sizes["norm_epsilon"])


class Step:
    """One batch with a static cache, ready to run any number of times."""

    def __init__(self, model, batch, context, tokens):
        self.model, self.context, self.tokens = model, context, tokens
        device, dtype = model.device, model.dtype
        self.input = torch.randint(model.sizes["vocabulary"], (batch, tokens), device=device)
        shape = (len(model.layers), batch, model.kv_heads, context + tokens, model.head_size)
        self.keys = torch.empty(shape, device=device, dtype=dtype).normal_()
        self.values = torch.empty(shape, device=device, dtype=dtype).normal_()
        positions = torch.arange(context, context + tokens, device=device, dtype=torch.float32)
        angles = torch.outer(positions, model.frequencies)
        self.cosines = torch.cat([angles.cos()] * 2, -1).to(dtype)
        self.sines = torch.cat([angles.sin()] * 2, -1).to(dtype)

    def rotated(self, x):
        left, right = x.chunk(2, -1)
        return x * self.cosines + torch.cat([-right, left], -1) * self.sines

    def attended(self, at, x):
        model, layer = self.model, self.model.layers[at]
        batch = x.shape[0]
        query, key, value = (part.view(batch, self.tokens, -1, model.head_size).transpose(1, 2)
                             for part in F.linear(x, layer["qkv"]).split(model.widths, -1))
        if layer["query_norm"] is not None:
            query, key = model.normed(query, layer["query_norm"]), model.normed(key, layer["key_norm"])
        self.keys[at, :, :, self.context:] = self.rotated(key)
        self.values[at, :, :, self.context:] = value
        mixed = attention(self.rotated(query), self.keys[at], self.values[at], self.context)
        return F.linear(mixed.transpose(1, 2).reshape(batch, self.tokens, -1), layer["output"])

    def logits(self):
        model = self.model
        hidden = F.embedding(self.input, model.embedding)
        for at, layer in enumerate(model.layers):
            hidden = hidden + self.attended(at, model.normed(hidden, layer["attention_norm"]))
            gate, up = F.linear(model.normed(hidden, layer["feed_forward_norm"]), layer["gate_up"]).chunk(2, -1)
            hidden = hidden + F.linear(F.silu(gate) * up, layer["down"])
        return F.linear(model.normed(hidden[:, -1], model.norm), model.head)

    def run(self):
        return self.logits().argmax(-1)


def attention(query, keys, values, context):
    """Attention in which each new token sees all tokens before it and itself."""
    tokens = query.shape[2]
    if context == 0 or tokens == 1:
        return F.scaled_dot_product_attention(query, keys, values, is_causal=tokens > 1, enable_gqa=True)
    seen = torch.ones(tokens, context + tokens, dtype=torch.bool, device=query.device).tril(context)
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=seen, enable_gqa=True)


def microseconds(device, work, count):
    """The time of one of `count` successive calls."""
    if device.type != "cuda":
        started = time.perf_counter()
        for _ in range(count):
            work()
        return (time.perf_counter() - started) * 1e6 / count
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(count):
        work()
    last.record()
    last.synchronize()
    return first.elapsed_time(last) * 1000 / count


def median(device, work, samples):
    for _ in range(2):
        took = microseconds(device, work, 1)
    count = max(1, min(MOST_STEPS, int(SAMPLE_US / took)))
    return statistics.median(microseconds(device, work, count) for _ in range(samples))


def captured(step):
    """Captures the step as a CUDA graph. Returns a function that runs it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step.run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step.run()
    return graph.replay


def measure(index, model, case, samples):
    ways = {"PyTorch eager": lambda step: step.run}
    if model.device.type == "cuda":
        ways["PyTorch CUDA graph"] = captured
    for peer, way in ways.items():
        try:
            step = Step(model, case["batch"], case["context"], case["tokens"])
            say(case=index, peer=peer, median=median(model.device, way(step), samples))
        except RuntimeError as error:  # for example out of memory
            say(case=index, peer=peer, error=str(error).splitlines()[0])


def matrix_rate(device, dtype, samples, side):
    a, b = (torch.empty(side, side, device=device, dtype=dtype).normal_() for _ in range(2))
    return 2 * side ** 3 / median(device, lambda: a @ b, samples) * 1e6


def answer(request):
    device = torch.device(request["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dtype = torch.bfloat16
    torch.manual_seed(1)
    say(torch=torch.__version__)
    model = None
    with torch.inference_mode():
        for index, case in enumerate(request["cases"]):
            if model is None or model.sizes != case["sizes"]:
                model = None
                model = Model(case["sizes"], device, dtype)
            measure(index, model, case, request["samples"])
            gc.collect()
            if device.type == "cuda":
                torch.cuda.empty_cache()
        if request["wants_matrix_rate"]:
            side = MATRIX_SIDE if device.type == "cuda" else MATRIX_SIDE // 16
            say(matrix_rate=matrix_rate(device, dtype, request["samples"], side))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    request = json.loads(sys.argv[1])
    if torch is None:
        say(missing="no PyTorch for this python3")
    elif request["device"].startswith("cuda") and not torch.cuda.is_available():
        say(missing=f"PyTorch {torch.__version__} sees no GPU")
    else:
        answer(request)


try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

if __name__ == "__main__":
    main()
