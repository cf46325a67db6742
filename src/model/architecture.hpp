// architecture.hpp: the architectures that are known. Each is described by one file in
// architectures/, which gives its names in both kinds of files and the tensors it needs.
// To add one: write that file, declare its function here, and name it in architecture.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/rope_store.hpp"

namespace attacca::model {

struct ModelConfig;

/// What a dimension of a tensor follows from.
enum class Size { vocabulary, hidden, queries, keys, head, feed_forward, rotary_half };

std::uint64_t size_in(const ModelConfig& config, Size size);

/// A tensor that an architecture has, under its name in GGUF files and in safetensors files.
/// {} stands for the layer.
struct TensorRule {
  const char* name = "";
  const char* hf_name = "";  // empty: safetensors files have none
  std::vector<Size> shape = {};
  bool is_optional = false;

  bool is_per_layer() const;
  std::string name_in(std::uint32_t layer) const;
  std::string hf_name_in(std::uint32_t layer) const;
};

struct Architecture {
  const char* name = "";                           // general.architecture
  std::vector<std::string_view> hf_names = {};     // "architectures" of config.json
  std::vector<std::string_view> model_types = {};  // "model_type" of config.json
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  kernels::RotaryPairs gguf_pairs = kernels::RotaryPairs::halves;  // in GGUF files
  kernels::RotaryPairs hf_pairs = kernels::RotaryPairs::halves;    // in safetensors files
  std::vector<TensorRule> tensors = {};
};

const std::vector<Architecture>& architectures();
/// By general.architecture; null where there is none.
const Architecture* find_architecture(std::string_view name);
/// By a name in "architectures", or by "model_type"; null where there is none.
const Architecture* find_hf_architecture(std::string_view name);
/// For messages: "llama, qwen2, qwen3"
std::string architecture_names();

/// Embedding, layers of grouped-query attention and a gated feed-forward, norm, head.
std::vector<TensorRule> decoder_tensors(bool has_qkv_bias, bool has_qk_norm);

Architecture llama();
Architecture qwen2();
Architecture qwen3();

}  // namespace attacca::model
