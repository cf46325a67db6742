// architecture.cpp: the table of architectures, and the tensors that decoders have in common.
#include "model/architecture.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "model/config.hpp"

namespace attacca::model {

std::uint64_t size_in(const ModelConfig& config, Size size) {
  switch (size) {
    case Size::vocabulary:
      return config.vocabulary;
    case Size::hidden:
      return config.hidden;
    case Size::queries:
      return std::uint64_t{config.heads} * config.head_size;
    case Size::keys:
      return std::uint64_t{config.kv_heads} * config.head_size;
    case Size::head:
      return config.head_size;
    case Size::feed_forward:
      return config.feed_forward;
    case Size::rotary_half:
      return config.rotary_size / 2;
  }
  return 0;
}

bool TensorRule::is_per_layer() const {
  return std::string_view(name).find('{') != std::string_view::npos;
}

std::string TensorRule::name_in(std::uint32_t layer) const {
  return fmt::format(fmt::runtime(name), layer);
}

std::string TensorRule::hf_name_in(std::uint32_t layer) const {
  return fmt::format(fmt::runtime(hf_name), layer);
}

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = {llama(), qwen2(), qwen3()};
  return all;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& architecture : architectures())
    if (architecture.name == name) return &architecture;
  return nullptr;
}

const Architecture* find_hf_architecture(std::string_view name) {
  const auto has = [&](const std::vector<std::string_view>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const Architecture& architecture : architectures())
    if (has(architecture.hf_names) || has(architecture.model_types)) return &architecture;
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : architectures())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", architecture.name);
  return names;
}

std::vector<TensorRule> decoder_tensors(bool has_qkv_bias, bool has_qk_norm) {
  using enum Size;
  std::vector<TensorRule> rules = {
      {"token_embd.weight", "model.embed_tokens.weight", {vocabulary, hidden}},
      {"blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight", {hidden}},
      {"blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight", {queries, hidden}},
      {"blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight", {keys, hidden}},
      {"blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight", {keys, hidden}},
      {"blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight", {hidden, queries}},
      {"blk.{}.ffn_norm.weight", "model.layers.{}.post_attention_layernorm.weight", {hidden}},
      {"blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight", {feed_forward, hidden}},
      {"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight", {feed_forward, hidden}},
      {"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight", {hidden, feed_forward}},
      {"output_norm.weight", "model.norm.weight", {hidden}},
      {"output.weight", "lm_head.weight", {vocabulary, hidden}, true},
      {"rope_freqs.weight", "", {rotary_half}, true},
  };
  if (has_qkv_bias) {
    rules.push_back({"blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias", {queries}});
    rules.push_back({"blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias", {keys}});
    rules.push_back({"blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias", {keys}});
  }
  if (has_qk_norm) {
    rules.push_back(
        {"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight", {head}});
    rules.push_back(
        {"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight", {head}});
  }
  return rules;
}

}  // namespace attacca::model
