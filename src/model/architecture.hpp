// architecture.hpp: the architectures that are supported. One file in architectures/ describes
// each: its names in both kinds of files and the tensors it needs. To add one, write that file,
// declare its function here, and list it in architecture.cpp. The kernels that compute it are
// chosen in step/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/rope_store.hpp"

namespace attacca::model {

struct ModelConfig;

/// The size of a model that a tensor's dimension equals.
enum class Size { vocabulary, hidden, queries, keys, head, feed_forward, rotary_half };

std::uint64_t size_in(const ModelConfig& config, Size size);

/// A tensor that an architecture has, with its names in GGUF and in safetensors files. In names {}
/// stands for the layer.
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
/// Looks up general.architecture; null if it is not supported.
const Architecture* find_architecture(std::string_view name);
/// Looks up a name of "architectures" or a "model_type"; null if it is not supported.
const Architecture* find_hf_architecture(std::string_view name);
/// For messages: "llama, qwen2, qwen3"
std::string architecture_names();

/// The tensors of a decoder: embedding, layers of grouped-query attention and a gated feed-forward,
/// norm, head.
std::vector<TensorRule> decoder_tensors(bool has_qkv_bias, bool has_qk_norm);

Architecture llama();
Architecture qwen2();
Architecture qwen3();

}  // namespace attacca::model
