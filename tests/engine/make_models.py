#!/usr/bin/env python3
"""Makes the small random models of tests/engine/fixtures and the results of Hugging Face transformers for them.

Usage: make_models.py OUTPUT_FOLDER, with torch and transformers installed. Each model is a folder in the Hugging Face
layout, without a tokenizer: config.json, generation_config.json and model.safetensors. Beside them expected.json has a
prompt, the logits of all its positions at a few vocabulary entries and their norms, the log-probability of each of its
tokens, and 64 tokens of greedy decoding. Everything is computed in float32 on the CPU.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers

SIZES = dict(vocab_size=288, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.15, rms_norm_eps=1e-5,
             bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}

# name: configuration class, differences from SIZES, type of the stored weights.
MODELS = {
    "llama": (transformers.LlamaConfig, dict(tie_word_embeddings=False), torch.float32),
    "llama3-rope": (transformers.LlamaConfig, dict(rope_parameters=LLAMA3, head_dim=48, tie_word_embeddings=True),
                    torch.bfloat16),
    "mistral-window": (transformers.MistralConfig, dict(sliding_window=24, head_dim=32), torch.float16),
    "qwen2": (transformers.Qwen2Config, dict(tie_word_embeddings=True), torch.bfloat16),
    "qwen3": (transformers.Qwen3Config, dict(head_dim=32, num_key_value_heads=1), torch.bfloat16),
}
SHARDS = {"mistral-window": "120KB"}  # stored in several files
PROMPT_TOKENS = 40
GREEDY_TOKENS = 64
PROBES = list(range(0, 288, 9))  # vocabulary entries whose logits are recorded


def randomize(model, generator):
    """Sets weights large enough that logits differ clearly, and norms and biases that are not trivial."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "embed" in name or "lm_head" in name:
                parameter.copy_((0.15 if model.config.tie_word_embeddings else 0.6) * noise)
            else:
                parameter.copy_(0.18 * noise)


def make(name, folder):
    config_class, changes, dtype = MODELS[name]
    config = config_class(**{**SIZES, **changes})
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model, generator)
    model = model.to(dtype)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=SHARDS.get(name, "1GB"))
    # The model is read back, not converted back: computed tables, such as RoPE frequencies, must not be rounded.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

    prompt = torch.randint(3, SIZES["vocab_size"], (1, PROMPT_TOKENS), generator=generator)
    with torch.no_grad():
        logits = model(prompt).logits[0]
        tokens = prompt
        for _ in range(GREEDY_TOKENS):
            tokens = torch.cat([tokens, model(tokens).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    scores = torch.log_softmax(logits.double(), -1)[:-1].gather(1, prompt[0, 1:, None])[:, 0]
    expected = {
        "prompt": prompt[0].tolist(),
        "greedy": tokens[0, PROMPT_TOKENS:].tolist(),
        "logprobs": [round(x, 7) for x in scores.tolist()],
        "norms": [float(f"{x:.7g}") for x in logits.double().norm(dim=-1).tolist()],
        "probes": PROBES,
        "logits": [[float(f"{x:.7g}") for x in row] for row in logits[:, PROBES].tolist()],
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    print(name, sum(p.numel() for p in model.parameters()), "parameters,",
          len(set(expected["greedy"])), "different greedy tokens")


if __name__ == "__main__":
    for model_name in MODELS:
        make(model_name, pathlib.Path(sys.argv[1]) / model_name)
