#!/usr/bin/env python3
"""SmolLM2 as attacca computes it, against Hugging Face transformers in float32 on the CPU with the same weights.

The weights of the GGUF file are dequantized here, with numpy, into a LlamaForCausalLM. Compared are
  - the log-probability of every token of a few texts (attacca score),
  - 64 greedy tokens after a few prompts (attacca run --temperature 0): each must be the oracle's choice after the same
    tokens, or one that the oracle holds to be as good within the noise, and
  - the log-probabilities of the ten best tokens at each of these steps,
first for the dequantized weights, written as a GGUF file of F32 tensors, where only the order of sums differs; then for
the file as it is, where kernels may round activations to integers.

Errors are relative: the norm of the differences by the norm of the oracle's log-probabilities.

    python3 -m venv build/oracle && build/oracle/bin/pip install numpy torch transformers && attacca pull smollm2
    build/oracle/bin/python tests/oracle/smollm2.py build/host/bin/attacca

Exits with 0 where they agree, 1 where they do not, 77 where torch, transformers or the file is missing. CTest runs it
as smollm2_oracle with the Python that CMake found (-DPython3_EXECUTABLE=...).
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

SKIPPED = 77

TEXTS = {
    "prose": "The river had risen in the night, and by morning the lower meadow was a lake. Anna stood at the gate "
             "with her boots in her hand and counted the fence posts that still showed above the water. There were "
             "eleven. Yesterday there had been forty. Her father said that the bridge would hold, as it had held in "
             "the spring of the great flood, when the miller's house went by with a lamp still burning in the window.",
    "code": "def greatest_common_divisor(a: int, b: int) -> int:\n    while b != 0:\n        a, b = b, a % b\n"
            "    return abs(a)\n\n\nassert greatest_common_divisor(48, 36) == 12\n",
    "facts": "Water boils at 100 degrees Celsius at sea level. Paris is the capital of France, and Rome is the capital "
             "of Italy. The square root of 144 is 12. Grüße aus Zürich! 你好 🙂",
}
PROMPTS = ["Once upon a time, there was a", "The capital of France is", "import numpy as np\n\ndef softmax(x):\n",
           "1, 1, 2, 3, 5, 8,"]
QUESTIONS = ["Why is the sky blue?", "Write a short poem about the sea."]
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
GREEDY_TOKENS = 64
ALTERNATIVES = 10
# The largest allowed error of a difference of two log-probabilities: five times the largest measured error of one.
EXACT_NOISE, ROUNDED_NOISE = 5e-4, 2e-2


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacca", help="the attacca command")
    parser.add_argument("model", nargs="?", help="SmolLM2's GGUF file; without it, what attacca pull smollm2 fetched")
    parser.add_argument("--device", default="host", help="where attacca computes (host)")
    parser.add_argument("--exact-tolerance", type=float, default=1e-4,
                        help="largest relative error for the F32 file (1e-4)")
    parser.add_argument("--rounded-tolerance", type=float, default=1e-3,
                        help="the same for the file as it is (1e-3)")
    return parser.parse_args()


ARGUMENTS = parse_arguments()
try:
    import numpy as np
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}; pip install numpy torch transformers")
    sys.exit(SKIPPED)


# --- the file

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
F32, F16, Q4_0, Q4_1, Q8_0 = 0, 1, 2, 3, 8
BLOCK_BYTES = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q8_0: (32, 34)}


class Gguf:
    """Metadata, and tensors as float32 arrays, outermost extent first."""

    def __init__(self, path):
        self.data = np.memmap(path, dtype=np.uint8, mode="r")
        self.at = 4
        version, tensors, entries = self.take("IQQ")
        if bytes(self.data[:4]) != b"GGUF" or version != 3:
            raise ValueError(f"{path} is not a GGUF file of version 3")
        start = self.at
        self.metadata = {self.text(): self.value(*self.take("I")) for _ in range(entries)}
        self.raw_metadata = bytes(self.data[start:self.at])
        self.infos = {}
        for _ in range(tensors):
            name = self.text()
            extents = self.take(f"{self.take('I')[0]}Q")
            self.infos[name] = (extents[::-1], *self.take("IQ"))
        alignment = self.metadata.get("general.alignment", 32)
        self.first = -(-self.at // alignment) * alignment

    def take(self, layout):
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def text(self):
        length = self.take("Q")[0]
        self.at += length
        return bytes(self.data[self.at - length:self.at]).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            element, count = self.take("IQ")
            return [self.value(element) for _ in range(count)]
        return self.take(SCALARS[kind])[0]

    def tensor(self, name):
        shape, kind, offset = self.infos[name]
        if kind not in BLOCK_BYTES:
            raise ValueError(f"tensor {name} has type {kind}; this script knows {sorted(BLOCK_BYTES)}")
        per_block, block_bytes = BLOCK_BYTES[kind]
        begin = self.first + offset
        blocks = self.data[begin:begin + int(np.prod(shape)) // per_block * block_bytes].reshape(-1, block_bytes)
        return dequantized(kind, blocks).reshape(shape)


def dequantized(kind, blocks):
    """Converts blocks of bytes to float32, by the GGUF specification."""
    def half(first):
        return blocks[:, first:first + 2].copy().view(np.float16).astype(np.float32)

    def nibbles(first):
        packed = blocks[:, first:first + 16]
        return np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)

    if kind == F32:
        return blocks.copy().view(np.float32)
    if kind == F16:
        return half(0)
    if kind == Q4_0:
        return half(0) * (nibbles(2) - 8)
    if kind == Q4_1:
        return half(0) * nibbles(4) + half(2)
    return half(0) * blocks[:, 2:].copy().view(np.int8).astype(np.float32)


def write_float32(file, path):
    """The same model with every tensor as F32."""
    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    head = b"GGUF" + struct.pack("<IQQ", 3, len(file.infos), len(file.metadata)) + file.raw_metadata
    offset = 0
    for name, (shape, _, _) in file.infos.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape[::-1], F32, offset)
        offset += -(-4 * int(np.prod(shape)) // 32) * 32
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % 32))
        for name in file.infos:
            data = file.tensor(name).tobytes()
            out.write(data + bytes(-len(data) % 32))


# --- the oracle

def make_oracle(file):
    get = lambda key: file.metadata["llama." + key]
    config = transformers.LlamaConfig(
        vocab_size=file.infos["token_embd.weight"][0][0], hidden_size=get("embedding_length"),
        intermediate_size=get("feed_forward_length"), num_hidden_layers=get("block_count"),
        num_attention_heads=get("attention.head_count"), num_key_value_heads=get("attention.head_count_kv"),
        max_position_embeddings=get("context_length"), rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": get("rope.freq_base")}, rope_theta=get("rope.freq_base"),
        tie_word_embeddings="output.weight" not in file.infos)
    config._attn_implementation = "eager"

    def halves(name, heads):
        """Reorders rows: elements that RoPE rotates together are adjacent in GGUF, half a head apart in transformers."""
        weight = file.tensor(name)
        return weight.reshape(heads, -1, 2, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)

    state = {"model.embed_tokens.weight": file.tensor("token_embd.weight"),
             "model.norm.weight": file.tensor("output_norm.weight")}
    state["lm_head.weight"] = (state["model.embed_tokens.weight"] if config.tie_word_embeddings
                               else file.tensor("output.weight"))
    for layer in range(config.num_hidden_layers):
        ours, theirs = f"blk.{layer}.", f"model.layers.{layer}."
        state[theirs + "self_attn.q_proj.weight"] = halves(ours + "attn_q.weight", config.num_attention_heads)
        state[theirs + "self_attn.k_proj.weight"] = halves(ours + "attn_k.weight", config.num_key_value_heads)
        for there, here in (("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"),
                            ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
                            ("input_layernorm", "attn_norm"), ("post_attention_layernorm", "ffn_norm")):
            state[f"{theirs}{there}.weight"] = file.tensor(f"{ours}{here}.weight")
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict({name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in state.items()})
    return model


class Oracle:
    """Log-probabilities of all tokens after each position."""

    def __init__(self, file):
        self.model = make_oracle(file)
        self.known = {}

    def logprobs(self, tokens):
        key = tuple(tokens)
        if key not in self.known:
            with torch.no_grad():
                logits = self.model(torch.tensor([tokens])).logits[0]
            self.known[key] = torch.log_softmax(logits.double(), dim=-1).numpy()
        return self.known[key]


# --- attacca

def attacca(*arguments):
    done = subprocess.run([ARGUMENTS.attacca, *map(str, arguments)], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"attacca {arguments[0]} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def tokens_of(model, text, *, special=False):
    """The engine's tokens of a text. Special tokens of a chat are only recognised if asked for."""
    flag = "--special" if special else "--no-special"
    return attacca("tokenize", model, text, "--json", flag, *([] if special else ["--add-special"]))["ids"]


class Errors:
    """attacca's log-probabilities beside the oracle's."""

    def __init__(self):
        self.largest_relative = 0.0

    def add(self, ours, theirs):
        """The comparison in words; counts it too."""
        ours, theirs = np.array(ours), np.array(theirs)
        relative = float(np.linalg.norm(ours - theirs) / np.linalg.norm(theirs))
        self.largest_relative = max(self.largest_relative, relative)
        return f"relative error {relative:.1e}, largest difference {np.abs(ours - theirs).max():.1e}"


def compare_scores(oracle, model, errors):
    for name, text in TEXTS.items():
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            score = attacca("score", model, "--text", file.name, "--device", ARGUMENTS.device)
        tokens = tokens_of(model, text)
        if tokens[1:] != [entry["token"] for entry in score["logprobs"]]:
            raise RuntimeError(f"{name}: attacca score and attacca tokenize read different tokens")
        ours = np.array([entry["logprob"] for entry in score["logprobs"]])
        theirs = oracle.logprobs(tokens)[np.arange(len(ours)), tokens[1:]]
        print(f"  score {name}: {len(ours)} tokens, perplexity {np.exp(-ours.mean()):.4f}, the oracle's "
              f"{np.exp(-theirs.mean()):.4f}; {errors.add(ours, theirs)}")


def compare_greedy(oracle, model, errors, noise):
    """How many tokens the oracle would not have chosen, by a margin above the noise."""
    wrong = 0
    chats = [f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
             for question in QUESTIONS]
    cases = [(prompt, tokens_of(model, prompt), ["--plain"]) for prompt in PROMPTS]
    cases += [(question, tokens_of(model, chat, special=True), []) for question, chat in zip(QUESTIONS, chats)]
    for prompt, tokens, flags in cases:
        reply = attacca("run", model, prompt, "--temperature", 0, "-n", GREEDY_TOKENS, "--ignore-end", "--logprobs",
                        ALTERNATIVES, "--repetition-penalty", 1, "--json", "--device", ARGUMENTS.device, *flags)
        if reply["prompt_tokens"] != len(tokens):
            raise RuntimeError(f"{prompt!r}: attacca read {reply['prompt_tokens']} tokens, expected {len(tokens)}")
        chosen = reply["tokens"]
        if len(chosen) != GREEDY_TOKENS or len(reply["logprobs"]) != GREEDY_TOKENS:
            raise RuntimeError(f"{prompt!r}: attacca generated {len(chosen)} tokens instead of {GREEDY_TOKENS}")
        rows = oracle.logprobs(tokens + chosen)[len(tokens) - 1:-1]
        theirs, ours = zip(*((row[top["token"]], top["logprob"])
                             for row, step in zip(rows, reply["logprobs"]) for top in step["top"]))
        gaps = rows.max(axis=1) - rows[np.arange(len(chosen)), chosen]
        others = np.flatnonzero(gaps > 0)
        wrong += int((gaps > noise).sum())
        print(f"  greedy {prompt!r}: {len(chosen)} tokens, {len(others)} not the oracle's; "
              f"{len(ours)} alternatives: {errors.add(ours, theirs)}")
        for at in others:
            print(f"    token {at}: {chosen[at]} instead of {rows[at].argmax()}, which the oracle prefers by "
                  f"{gaps[at]:.1e}, {'within' if gaps[at] <= noise else 'beyond'} the noise of {noise:.0e}")
    return wrong


def agrees(oracle, model, title, tolerance, noise):
    print(title)
    errors = Errors()
    compare_scores(oracle, model, errors)
    wrong = compare_greedy(oracle, model, errors, noise)
    good = errors.largest_relative <= tolerance and wrong == 0
    print(f"  {'agrees' if good else 'DISAGREES'}: largest relative error {errors.largest_relative:.1e}, "
          f"{tolerance:.0e} allowed; {wrong} tokens beyond the noise")
    return good


def model_path():
    if ARGUMENTS.model:
        return pathlib.Path(ARGUMENTS.model)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "attacca" / "models" / "smollm2.gguf"


def main():
    path = model_path()
    if not path.is_file():
        print(f"skipped: {path} is not here; attacca pull smollm2 fetches it")
        sys.exit(SKIPPED)
    torch.set_num_threads(os.cpu_count() or 1)
    file = Gguf(path)
    oracle = Oracle(file)
    with tempfile.TemporaryDirectory() as folder:
        exact = pathlib.Path(folder) / "float32.gguf"
        write_float32(file, exact)
        good = agrees(oracle, exact, "weights dequantized to F32", ARGUMENTS.exact_tolerance, EXACT_NOISE)
    good &= agrees(oracle, path, "weights as they are", ARGUMENTS.rounded_tolerance, ROUNDED_NOISE)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
