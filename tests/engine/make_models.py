#!/usr/bin/env python3
"""Makes the small random models of tests/engine/fixtures and the results of Hugging Face transformers for them.

Usage: make_models.py OUTPUT_FOLDER [NAME...], with torch and transformers installed; without names it makes all. Each
model is a folder in the Hugging Face layout, without a tokenizer: config.json, generation_config.json and
model.safetensors. Beside them expected.json has a prompt, the logits of all its positions at a few vocabulary entries and
their norms, the log-probability of each of its tokens, and tokens of greedy decoding. Everything is computed in float32 on
the CPU.

MODELS is one model of each architecture. SHAPES has the sizes of heads and of hidden rows that real models have and MODELS
does not, with prompts of more than 64 tokens.
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
# The same, with the tokens of the prompt. On a GPU products are streamed where all sizes of a layer are multiples of 32, and
# tiled where they are multiples of 64.
SHAPES = {
    "llama-head64": (transformers.LlamaConfig,
                     dict(hidden_size=64, head_dim=64, num_attention_heads=2, num_key_value_heads=1,
                          intermediate_size=64, vocab_size=208), torch.bfloat16, 150),
    "qwen2-head80": (transformers.Qwen2Config,
                     dict(hidden_size=32, head_dim=80, num_attention_heads=4, num_key_value_heads=2,
                          intermediate_size=64, vocab_size=208), torch.bfloat16, 90),
    "mistral-head96": (transformers.MistralConfig,
                       dict(hidden_size=96, head_dim=96, num_attention_heads=2, num_key_value_heads=1,
                            intermediate_size=32, vocab_size=80, sliding_window=70), torch.float16, 100),
    "qwen3-head128": (transformers.Qwen3Config,
                      dict(hidden_size=32, head_dim=128, num_attention_heads=3, num_key_value_heads=1,
                           intermediate_size=64, vocab_size=136), torch.bfloat16, 110),
    "llama-head256": (transformers.LlamaConfig,
                      dict(hidden_size=32, head_dim=256, num_attention_heads=2, num_key_value_heads=1,
                           intermediate_size=32, vocab_size=100, rope_parameters=LLAMA3), torch.bfloat16, 90),
    "llama-hidden200": (transformers.LlamaConfig,
                        dict(hidden_size=200, head_dim=16, num_attention_heads=2, num_key_value_heads=2,
                             intermediate_size=24, vocab_size=72), torch.bfloat16, 90),
    "qwen2-hidden104": (transformers.Qwen2Config,
                        dict(hidden_size=104, head_dim=16, num_attention_heads=2, num_key_value_heads=1,
                             intermediate_size=24, vocab_size=72), torch.float32, 90),
}
SHARDS = {"mistral-window": "120KB"}  # stored in several files
PROMPT_TOKENS = 40  # of MODELS
GREEDY_TOKENS = 64
GREEDY_TOKENS_OF_SHAPES = 24


def randomize(model, generator, is_shape):
    """Sets weights large enough that logits differ clearly, and norms and biases that are not trivial."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif is_shape:  # of the same size after a product, whatever the size of its rows
                parameter.copy_((2.4 if "embed" in name else 1.4) / parameter.shape[1] ** 0.5 * noise)
            elif "embed" in name or "lm_head" in name:
                parameter.copy_((0.15 if model.config.tie_word_embeddings else 0.6) * noise)
            else:
                parameter.copy_(0.18 * noise)


def make(name, folder):
    is_shape = name in SHAPES
    if is_shape:
        config_class, changes, dtype, prompt_tokens = SHAPES[name]
        changes = dict(tie_word_embeddings=True, **changes)
    else:
        config_class, changes, dtype, prompt_tokens = *MODELS[name], PROMPT_TOKENS
    config = config_class(**{**SIZES, **changes})
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model, generator, is_shape)
    model = model.to(dtype)
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=SHARDS.get(name, "1GB"))
    # The model is read back, not converted back: computed tables, such as RoPE frequencies, must not be rounded.
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()

    prompt = torch.randint(3, config.vocab_size, (1, prompt_tokens), generator=generator)
    probes = list(range(0, config.vocab_size, 13 if is_shape else 9))  # entries whose logits are recorded
    with torch.no_grad():
        logits = model(prompt).logits[0]
        tokens = prompt
        for _ in range(GREEDY_TOKENS_OF_SHAPES if is_shape else GREEDY_TOKENS):
            tokens = torch.cat([tokens, model(tokens).logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    scores = torch.log_softmax(logits.double(), -1)[:-1].gather(1, prompt[0, 1:, None])[:, 0]
    expected = {
        "prompt": prompt[0].tolist(),
        "greedy": tokens[0, prompt_tokens:].tolist(),
        "logprobs": [round(x, 7) for x in scores.tolist()],
        "norms": [float(f"{x:.7g}") for x in logits.double().norm(dim=-1).tolist()],
        "probes": probes,
        "logits": [[float(f"{x:.7g}") for x in row] for row in logits[:, probes].tolist()],
    }
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    print(name, sum(p.numel() for p in model.parameters()), "parameters,",
          len(set(expected["greedy"])), "different greedy tokens")


if __name__ == "__main__":
    for model_name in sys.argv[2:] or [*MODELS, *SHAPES]:
        make(model_name, pathlib.Path(sys.argv[1]) / model_name)
