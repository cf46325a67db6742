#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, made of the fixtures of other tests, into FOLDER/<target>: small files that are
in order, so that a change breaks one thing at a time.

    make_seeds.py FOLDER
"""
import json
import pathlib
import shutil
import struct
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
TEXT = TESTS / "text" / "fixtures"
FORMATS = TESTS / "formats" / "fixtures"


def chat_seeds():
    yield from ((path.stem, path.read_bytes()) for path in sorted((TEXT / "chat").glob("*.jinja")))
    cases = json.loads((TEXT / "chat" / "cases.json").read_text())
    for number, case in enumerate(cases["language"]):
        yield f"language-{number:03}", case["template"].encode()


def shortened(tokenizer):
    """The same with few tokens; else most changes would hit the vocabulary."""
    model = tokenizer["model"]
    kept = sorted(model["vocab"], key=model["vocab"].get)[:80] + [f"<0x{byte:02X}>" for byte in (0xC3, 0xA9)]
    model["vocab"] = {token: model["vocab"][token] for token in kept if token in model["vocab"]}
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    model["merges"] = [pair for pair in pairs if all(part in model["vocab"] for part in (*pair, "".join(pair)))][:20]
    return tokenizer


def tokenizer_seeds():
    """A tokenizer.json and, behind a zero byte, a text."""
    text = "<s>The cat's naïve éé 1234  \n\n word <mask> Ab \U0001F642".encode() + b"\xF0\x9F\xFF"
    files = {path.stem: json.loads(path.read_text()) for path in sorted(TEXT.glob("tokenizer_*.json"))}
    variants = files.pop("tokenizer_variants")
    for name, tokenizer in files.items():
        if "model" not in tokenizer:  # the vocabulary of a GGUF file
            continue
        yield name, json.dumps(shortened(tokenizer), ensure_ascii=False).encode() + b"\0" + text
    for variant in variants:
        changed = files["tokenizer_qwen"] | variant["change"]
        yield variant["name"], json.dumps(changed, ensure_ascii=False).encode() + b"\0" + text
    yield "text", text


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(value):
    """The number of a value's type, and its bytes."""
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 5, struct.pack("<i", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, gguf_text(value)
    kind = gguf_value(value[0])[0]
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(gguf_value(one)[1] for one in value)


def gguf_file(metadata, shapes):
    """Tensors of float32 zeros."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    for key, value in metadata.items():
        kind, data = gguf_value(value)
        out += gguf_text(key) + struct.pack("<I", kind) + data
    offset = 0
    for name, shape in shapes.items():
        out += gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        size = 4
        for extent in shape:
            size *= extent
        offset += -(-size // 32) * 32
    return out + bytes(-len(out) % 32 + offset)


def gguf_seeds():
    yield "metadata", (FORMATS / "metadata.gguf").read_bytes()
    bpe = {"model": "gpt2", "pre": "llama-bpe", "tokens": ["a", "b", "ab", "<|end|>"], "token_type": [1, 1, 1, 3],
           "merges": ["a b"], "eos_token_id": 3}
    pieces = {"model": "llama", "tokens": ["<unk>", "<s>", "</s>", "▁a", "<0xC3>"], "token_type": [2, 3, 3, 1, 6],
              "scores": [0.0, 0.0, 0.0, -1.0, 0.0], "add_bos_token": True, "add_space_prefix": False}
    for name, tokenizer in (("llama", pieces), ("qwen2", bpe), ("qwen3", bpe)):
        metadata = {"general.architecture": name, "general.alignment": 32, f"{name}.block_count": 1,
                    f"{name}.context_length": 64, f"{name}.embedding_length": 32, f"{name}.feed_forward_length": 32,
                    f"{name}.attention.head_count": 2, f"{name}.attention.head_count_kv": 1,
                    f"{name}.attention.layer_norm_rms_epsilon": 1e-5, f"{name}.rope.freq_base": 1e4,
                    f"{name}.rope.dimension_count": 16, f"{name}.rope.scaling.type": "linear",
                    f"{name}.rope.scaling.factor": 2.0}
        metadata |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer.items()}
        yield name, gguf_file(metadata, {"token_embd.weight": (32, 8), "output_norm.weight": (32,)})


def safetensors_seeds():
    yield "types", (FORMATS / "types.safetensors").read_bytes()
    for path in sorted((TESTS / "engine" / "fixtures").glob("*/config.json")):
        yield path.parent.name, path.read_bytes()


def grammar_seeds():
    """A JSON schema, or a slash and a regular expression."""
    for path in sorted((TESTS / "grammar" / "fixtures").glob("*.json")):
        for number, case in enumerate(json.loads(path.read_text(encoding="utf-8"))):
            yield f"{path.stem}-{number:03}", json.dumps(case["schema"], ensure_ascii=False).encode()
            if isinstance(case["schema"], dict) and "pattern" in case["schema"]:
                yield f"regex-{number:03}", b"/" + case["schema"]["pattern"].encode()


def http_seeds():
    post = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nX-Request-Id: b\r\nOrigin: http://c\r\n"
    yield "post", post + b'Content-Length: 15\r\n\r\n{"prompt": "a"}'
    yield "chunks", post + b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: z\r\n\r\n"
    yield "pipelined", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3 + b"HEAD /a?b=c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    yield "expects", post + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
    yield "old", b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    yield "stream", b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n"
    yield "large", post + b"Content-Length: 99999999999999999999\r\n\r\n" + b"a" * 100
    yield "header", b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (at, b"v" * 60) for at in range(80)) + b"\r\n"
    yield "tls", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03"


def requests_seeds():
    sampling = {"model": "small", "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "presence_penalty": -1,
                "frequency_penalty": 2, "repetition_penalty": 1.5, "seed": 9, "stop": ["a", "b"],
                "stop_token_ids": [3, 4], "ignore_eos": True, "logit_bias": {"5": -100, "7": 1.5}, "n": 3,
                "stream": True, "stream_options": {"include_usage": True}}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "é"}]
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}, {"role": "assistant"}]
    for name, body in {"chat": {"messages": messages, "max_completion_tokens": 12, "logprobs": True, "top_logprobs": 4,
                                "response_format": {"type": "text"}, "tools": [], "user": "me"} | sampling,
                       "text": {"prompt": "Once", "max_tokens": 3, "logprobs": 2, "best_of": 3} | sampling,
                       "tokens": {"prompt": [[1, 2], [3]]}, "texts": {"prompt": ["a", "b"], "n": 2},
                       "schema": {"prompt": "a", "response_format": {"type": "json_schema", "json_schema": {
                           "name": "n", "strict": True, "schema": {"properties": {"b": {}, "a": {"type": "null"}}}}}},
                       "tools": {"messages": [{"role": "assistant", "tool_calls": [
                           {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                           {"role": "tool", "tool_call_id": "1", "content": "a"}], "tool_choice": "required",
                           "tools": [{"type": "function", "function": {"name": "f", "parameters": {
                               "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}}}]},
                       "regex": {"prompt": "a", "response_format": {"type": "regex", "pattern": "a+"}},
                       "embedding": {"input": ["a", "b"], "pooling": "mean", "encoding_format": "base64"},
                       "detokenize": {"tokens": [1, 999]}}.items():
        yield name, json.dumps(body).encode()
    yield "qwen-call", b'a <tool_call>{"name": "f", "arguments": {"b": 1}}</tool_call>'
    yield "llama-call", b'{"name": "f", "parameters": {"b": 1}}'


def sse_seeds():
    """Streams of completions, and an error reply."""
    def event(**fields):
        return b"data: " + json.dumps(fields).encode() + b"\n\n"
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
    last = {"index": 0, "finish_reason": "stop"}
    done = b"data: [DONE]\n\n"
    yield "chat", (event(choices=[{"delta": {"role": "assistant", "content": ""}}]) +
                   event(choices=[{"delta": {"content": "a"}, "finish_reason": None}], usage=None) +
                   event(choices=[last | {"delta": {}}]) + event(choices=[], usage=usage) + done)
    yield "text", event(choices=[{"text": "é", "logprobs": None}]) + event(choices=[last | {"text": "b"}]) + done
    yield "lines", (b"\xEF\xBB\xBF: comment\r\nevent: x\r\nid: 3\r\ndata: {\"choices\":\r\ndata: []}\r\n\r\n" +
                    b"retry: 1\rdata\r\r" + done)
    yield "error", event(choices=[{"text": "a"}]) + event(error={"message": "lost", "code": 5})
    yield "refusal", b'{"error": {"message": "busy", "type": "rate_limit_error"}}'


def plan_seeds():
    ours = {"step": 9, "batch": "decode", "mode": "decode", "tokens": 3, "rows": 3, "size": 4, "padding": 1, "hit": True,
            "microseconds": 20.5}
    mixed = ours | {"batch": "mixed", "mode": "kernels", "tokens": 80, "size": 0, "hit": False}
    yield "steps", "\n".join(json.dumps(step) for step in (ours, mixed, ours, mixed)).encode()
    stats = {"iter": 3, "iterLatencyMS": 8.5, "inflightBatchingStats": {"numCtxTokens": 60, "numGenRequests": 4}}
    yield "iterations", f"{json.dumps(stats)}\n{stats}\n[{json.dumps(stats)}, {stats}]\n".encode()
    yield "table", (b"- Mode: FULL_AND_PIECEWISE\n| Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |\n"
                    b"| 6 | 8 | 2 | FULL | 31 |\n| 415 | 415 | 0 | NONE | 1 |\n")
    yield "distribution", b"1:900,8:30,64:5,3"


def roofs_seeds():
    names = ("read copy cache launch_us graph_us node_us early_node_us persistent_us step_us barrier_us device_launch_us tiny_us "
             "branch_us_of_2 branch_us_of_8 branch_us_of_32 branch_us_of_128 root_us_of_2 root_us_of_8 root_us_of_32 root_us_of_128 "
             "fp32 bf16 fp8").split()
    yield "kept", ("attacca roofs 2: Neoverse-V1, 2 threads\n" + "".join(f"{name} 1.5e9\n" for name in names) + "end\n").encode()


def ranks_seeds():
    """Messages to a rank, and lists of machines."""
    def message(tag, data):
        return struct.pack("<IiQ", 0x61636361, tag, len(data)) + data
    yield "messages", message(0, b"sixteen bytes...") + message(2, b"") + message(1, b"one") + message(1, b"two")
    for number, hosts in enumerate(["node3", "node[03-07,12],other", "rack[2,5]node[1-8].x"]):
        yield f"hosts-{number}", hosts.encode()


def trace_seeds():
    slices = [{"ph": "X", "name": "rms_norm", "pid": 1, "tid": 1, "ts": 10.5 * at, "dur": 8.25,
               "args": {"graph": "step", "launch": 1, "iteration": at + 1, "tokens": 4, "why": "x",
                        "flops": 2.5e9, "bytes": 4096, "arithmetic": "bf16"}} for at in range(3)]
    names = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host"}},
             {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "steps", "ranges": True}}]
    pairs = [{"ph": "B", "name": "a", "pid": "p", "tid": 2, "ts": 1}, {"ph": "E", "pid": "p", "tid": 2, "ts": 7},
             {"ph": "C", "name": "counter", "ts": 3}]
    yield "object", json.dumps({"displayTimeUnit": "ns", "traceEvents": names + slices}).encode()
    yield "list", json.dumps(slices + pairs + names).encode()


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    targets = {"chat": chat_seeds, "gguf": gguf_seeds, "grammar": grammar_seeds, "http": http_seeds, "plan": plan_seeds,
               "ranks": ranks_seeds, "requests": requests_seeds, "roofs": roofs_seeds, "safetensors": safetensors_seeds, "sse": sse_seeds,
               "tokenizer": tokenizer_seeds, "trace": trace_seeds}
    for target, seeds in targets.items():
        folder = pathlib.Path(sys.argv[1]) / target
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, data in seeds():
            (folder / name.replace(" ", "-")).write_bytes(data)


if __name__ == "__main__":
    main()
