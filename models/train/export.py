"""Writes a trained model as GGUF, and reads such a file back into the PyTorch model.

    python3 export.py model.pt attacca-small.gguf [--type q8_0|q4_1|f16]

Matrices are quantized by rounding to nearest; norms stay float32. Query and key rows are reordered from halves to
adjacent pairs, which is how GGUF's llama architecture rotates them.
"""

import argparse
import pathlib
import struct

import numpy
import torch

from model import Llama, Shape
from tokenizer import END, SPECIAL, USER_END, Tokenizer

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + "
    "'\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
DESCRIPTION = (
    "A small story-telling chat model, trained from scratch by the attacca project on text that "
    "models/train/generate.py writes."
)
ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
TYPES = {"f32": 0, "f16": 1, "q4_1": 3, "q8_0": 8}
FILE_TYPES = {"f32": 0, "f16": 1, "q4_1": 3, "q8_0": 7}
BLOCK = {"f32": (1, 4), "f16": (1, 2), "q4_1": (32, 20), "q8_0": (32, 34)}  # weights, bytes


def quantize(weight, kind):
    """The bytes of a float32 array in the given type."""
    if kind == "f32":
        return weight.astype("<f4").tobytes()
    if kind == "f16":
        return weight.astype("<f2").tobytes()
    blocks = weight.astype(numpy.float32).reshape(-1, 32)
    if kind == "q8_0":
        scale = numpy.abs(blocks).max(1, keepdims=True) / numpy.float32(127)
        levels = round_away(blocks * inverse(scale)).astype("i1")
        return numpy.concatenate((scale.astype("<f2").view("u1"), levels.view("u1")), 1).tobytes()
    low = blocks.min(1, keepdims=True)
    scale = (blocks.max(1, keepdims=True) - low) / numpy.float32(15)
    levels = numpy.clip(((blocks - low) * inverse(scale) + numpy.float32(0.5)).astype("i4"), 0, 15).astype("u1")
    packed = levels[:, :16] | levels[:, 16:] << 4
    return numpy.concatenate((scale.astype("<f2").view("u1"), low.astype("<f2").view("u1"), packed), 1).tobytes()


def inverse(scale):
    return numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale != 0)


def round_away(x):
    return numpy.trunc(x + numpy.copysign(numpy.float32(0.5), x))


def dequantize(raw, kind, shape):
    if kind in ("f32", "f16"):
        return numpy.frombuffer(raw, "<f4" if kind == "f32" else "<f2").astype(numpy.float32).reshape(shape)
    blocks = numpy.frombuffer(raw, "u1").reshape(-1, BLOCK[kind][1])
    scale = blocks[:, :2].copy().view("<f2").astype(numpy.float32)
    if kind == "q8_0":
        return (blocks[:, 2:].copy().view("i1") * scale).reshape(shape)
    low = blocks[:, 2:4].copy().view("<f2").astype(numpy.float32)
    levels = numpy.concatenate((blocks[:, 4:] & 15, blocks[:, 4:] >> 4), 1)
    return (levels * scale + low).reshape(shape)


def to_pairs(weight, heads):
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


def to_halves(weight, heads):
    return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


PARTS = {
    "attention_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "output": "attn_output",
    "feed_forward_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}


def tensor_names(shape):
    """Pairs of our names and GGUF's, in the order of the file."""
    yield "embedding.weight", "token_embd.weight"
    for layer in range(shape.layers):
        for ours, theirs in PARTS.items():
            yield f"blocks.{layer}.{ours}.weight", f"blk.{layer}.{theirs}.weight"
    yield "norm.weight", "output_norm.weight"


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def entry(key, kind, value):
    if kind == ARRAY:
        element, values = value
        packed = b"".join(map(text, values)) if element == STRING else struct.pack(f"<{len(values)}i", *values)
        body = struct.pack("<IQ", element, len(values)) + packed
    else:
        body = text(value) if kind == STRING else struct.pack({UINT32: "<I", FLOAT32: "<f", BOOL: "<?"}[kind], value)
    return text(key) + struct.pack("<I", kind) + body


def metadata(shape, tokenizer, kind):
    special = {token: tokenizer.vocabulary[token] for token in SPECIAL}
    control = [3 if piece in special else 1 for piece in tokenizer.pieces]
    return [
        ("general.architecture", STRING, "llama"),
        ("general.type", STRING, "model"),
        ("general.name", STRING, "attacca-small"),
        ("general.description", STRING, DESCRIPTION),
        ("general.license", STRING, "apache-2.0"),
        ("general.alignment", UINT32, ALIGNMENT),
        ("general.file_type", UINT32, FILE_TYPES[kind]),
        ("general.quantization_version", UINT32, 2),
        ("llama.vocab_size", UINT32, shape.vocabulary),
        ("llama.context_length", UINT32, shape.context),
        ("llama.embedding_length", UINT32, shape.hidden),
        ("llama.block_count", UINT32, shape.layers),
        ("llama.feed_forward_length", UINT32, shape.feed_forward),
        ("llama.attention.head_count", UINT32, shape.heads),
        ("llama.attention.head_count_kv", UINT32, shape.kv_heads),
        ("llama.attention.key_length", UINT32, shape.head_size),
        ("llama.attention.value_length", UINT32, shape.head_size),
        ("llama.rope.dimension_count", UINT32, shape.head_size),
        ("llama.rope.freq_base", FLOAT32, shape.theta),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, shape.epsilon),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokenizer.pieces)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, control)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, [" ".join(merge) for merge in tokenizer.merges])),
        ("tokenizer.ggml.bos_token_id", UINT32, special[END]),
        ("tokenizer.ggml.eos_token_id", UINT32, special[USER_END]),
        ("tokenizer.ggml.eot_token_id", UINT32, special[USER_END]),
        ("tokenizer.ggml.padding_token_id", UINT32, special[END]),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, CHAT_TEMPLATE),
    ]


def write(path, shape, weights, tokenizer, kind):
    infos, blobs, offset = [], [], 0
    for ours, theirs in tensor_names(shape):
        weight = weights[ours].numpy()
        if theirs.endswith(("attn_q.weight", "attn_k.weight")):
            weight = to_pairs(weight, shape.heads if "attn_q" in theirs else shape.kv_heads)
        type_ = kind if weight.ndim == 2 else "f32"
        raw = quantize(weight, type_)
        raw += bytes(-len(raw) % ALIGNMENT)
        sizes = weight.shape[::-1]
        infos.append(text(theirs) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, TYPES[type_], offset))
        blobs.append(raw)
        offset += len(raw)
    entries = metadata(shape, tokenizer, kind)
    head = (
        struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(entries))
        + b"".join(entry(*e) for e in entries)
        + b"".join(infos)
    )
    pathlib.Path(path).write_bytes(head + bytes(-len(head) % ALIGNMENT) + b"".join(blobs))


class Reader:
    """Reads what `write` wrote."""

    def __init__(self, path):
        self.raw, self.at = pathlib.Path(path).read_bytes(), 0
        _, _, tensors, entries = self.take("<4sIQQ")
        self.fields = {}
        for _ in range(entries):
            key = self.string()
            self.fields[key] = self.value(self.take("<I")[0])
        infos = []
        for _ in range(tensors):
            name, count = self.string(), self.take("<I")[0]
            infos.append((name, self.take(f"<{count}Q")[::-1], *self.take("<IQ")))
        start = self.at + -self.at % ALIGNMENT
        kinds = {number: kind for kind, number in TYPES.items()}
        self.tensors = {}
        for name, shape, number, offset in infos:
            weights, size = BLOCK[kinds[number]]
            length = int(numpy.prod(shape)) // weights * size
            self.tensors[name] = dequantize(self.raw[start + offset : start + offset + length], kinds[number], shape)

    def take(self, layout):
        values = struct.unpack_from(layout, self.raw, self.at)
        self.at += struct.calcsize(layout)
        return values

    def string(self):
        length = self.take("<Q")[0]
        self.at += length
        return self.raw[self.at - length : self.at].decode()

    def value(self, kind):
        if kind == ARRAY:
            element, count = self.take("<IQ")
            return [self.value(element) for _ in range(count)]
        return (
            self.string()
            if kind == STRING
            else self.take({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind])[0]
        )


def read(path):
    """The PyTorch model with the file's dequantized weights."""
    file = Reader(path)
    value = {key.removeprefix("llama."): number for key, number in file.fields.items()}
    shape = Shape(
        vocabulary=value["vocab_size"],
        context=value["context_length"],
        hidden=value["embedding_length"],
        layers=value["block_count"],
        heads=value["attention.head_count"],
        kv_heads=value["attention.head_count_kv"],
        feed_forward=value["feed_forward_length"],
        head_size=value["attention.key_length"],
    )
    weights = {}
    for ours, theirs in tensor_names(shape):
        weight = file.tensors[theirs]
        if theirs.endswith(("attn_q.weight", "attn_k.weight")):
            weight = to_halves(weight, shape.heads if "attn_q" in theirs else shape.kv_heads)
        weights[ours] = torch.from_numpy(weight.copy())
    model = Llama(shape)
    model.load_state_dict(weights)
    return model


def load(path):
    """The PyTorch model of a checkpoint that train.py saved."""
    saved = torch.load(path, weights_only=True)
    model = Llama(Shape(**saved["shape"]))
    model.load_state_dict(saved["weights"])
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--type", choices=("q8_0", "q4_1", "f16"), default="q8_0")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=pathlib.Path(__file__).parent / "tokenizer.json")
    arguments = parser.parse_args()
    trained = load(arguments.checkpoint)
    write(arguments.out, trained.shape, trained.state_dict(), Tokenizer(arguments.tokenizer), arguments.type)
    print(f"{arguments.out}: {arguments.out.stat().st_size:,} bytes")
