// config.hpp: a model's sizes and hyperparameters, read from GGUF metadata or from Hugging Face's
// config.json and generation_config.json, and checked. Tensors are in checkpoint.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.hpp"

namespace attacca::formats {
class GgufFile;
}

namespace attacca::model {

/// How RoPE frequencies are scaled for contexts longer than those of training.
struct RopeScaling {
  enum class Kind { none, linear, llama3 };
  Kind kind = Kind::none;
  double factor = 1;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_context = 8192;

  bool operator==(const RopeScaling&) const = default;
};

/// The advice of generation_config.json. Fields that it does not mention are empty.
struct GenerationDefaults {
  std::optional<bool> does_sample;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<std::uint32_t> top_k;
  std::optional<float> repetition_penalty;
};

struct ModelConfig {
  const Architecture* architecture = nullptr;  // one of architectures()
  std::string name;
  std::uint32_t vocabulary = 0;  // rows of the embedding
  std::uint32_t hidden = 0;
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;   // divides heads
  std::uint32_t head_size = 0;  // a multiple of 8, at most 256
  std::uint32_t feed_forward = 0;
  std::uint32_t context = 0;
  std::uint32_t window = 0;  // positions that attention sees, up to its own; 0: all
  float norm_epsilon = 0;
  double rope_theta = 10000;
  std::uint32_t rotary_size = 0;  // leading elements of a head that rotate; even
  kernels::RotaryPairs pairs = kernels::RotaryPairs::halves;
  RopeScaling scaling;
  std::vector<float> rope_divisors;  // [rotary_size / 2] or empty: GGUF's rope_freqs.weight
  // The head is the embedding. Empty: only if the file has no head. A Checkpoint's is never empty.
  std::optional<bool> is_tied;
  std::optional<std::int32_t> bos_id;
  std::optional<std::int32_t> eos_id;
  std::optional<std::int32_t> pad_id;
  std::vector<std::int32_t> eos_ids;  // all tokens that end a text, with eos_id
  GenerationDefaults generation;
  std::vector<std::string> notes;  // surprises in the files that a user should know
};

/// Throws BadArgument with the file, the key and the value.
ModelConfig config_from_gguf(const formats::GgufFile& file);
/// Takes the texts of the two files; `generation` may be empty. `folder` is for messages. Throws as
/// above.
ModelConfig config_from_json(std::string_view config, std::string_view generation,
                             const std::string& folder);
/// The default template of a tokenizer_config.json, which has none, one, or a list of named ones.
/// Messages call it `file`. Throws as above.
std::optional<std::string> chat_template_from_json(std::string_view text, const std::string& file);

/// [rotary_size / 2]: the angle of pair i at a position is position * frequency[i].
std::vector<float> rotary_frequencies(const ModelConfig& config);

/// Bytes of the keys and values of one token in f32, over all layers.
std::uint64_t kv_bytes_per_token(const ModelConfig& config);

/// The keys under which a kind of file has the sizes, for messages.
struct SizeKeys {
  std::string vocabulary, hidden, layers, heads, kv_heads, head_size, feed_forward, context,
      norm_epsilon, rope_theta, rotary_size, scaling;
};
/// Throws BadArgument if a size is out of bounds or does not fit the others.
void check_config(const ModelConfig& config, const std::string& file, const SizeKeys& keys);

}  // namespace attacca::model
