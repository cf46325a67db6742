// config_gguf.cpp: reads a configuration from GGUF metadata. The table of keys is config_keys.cpp.
#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <cmath>

#include "core/in_quotes.hpp"
#include "formats/gguf.hpp"
#include "model/config.hpp"
#include "model/config_keys.hpp"

namespace attacca::model {

namespace {

/// Metadata whose keys begin with the architecture's name.
class Keys {
 public:
  Keys(const formats::GgufFile& file, const char* architecture)
      : file_(file), prefix_(architecture) {}

  std::string key(const char* name) const { return fmt::format("{}.{}", prefix_, name); }
  template <class T>
  T get(const char* name) const {
    return file_.get<T>(key(name));
  }
  template <class T>
  std::optional<T> find(const char* name) const {
    return file_.find<T>(key(name));
  }

  [[noreturn]] void refuse(const char* name, const std::string& why) const {
    throw BadArgument(fmt::format("{}: {} is {}", file_.name(), key(name), why));
  }

 private:
  const formats::GgufFile& file_;
  const char* prefix_;
};

const Architecture& architecture_of(const formats::GgufFile& file) {
  const auto name = file.get<std::string_view>("general.architecture");
  if (const Architecture* found = find_architecture(name)) return *found;
  throw BadArgument(fmt::format("{}: general.architecture {} is not supported; {} are", file.name(),
                                in_quotes(name), architecture_names()));
}

std::uint32_t vocabulary_of(const formats::GgufFile& file) {
  const formats::Tensor* embedding = file.tensor("token_embd.weight");
  if (!embedding)
    throw BadArgument(fmt::format("{}: tensor 'token_embd.weight' is missing", file.name()));
  const std::uint64_t rows = embedding->shape.front();
  const formats::GgufValue* tokens = file.value("tokenizer.ggml.tokens");
  if (tokens && tokens->is_array && tokens->count > rows) {
    const auto names = tokens->as<std::vector<std::string_view>>();
    throw BadArgument(fmt::format(
        "{}: tokenizer.ggml.tokens has {} tokens, but token_embd.weight {} rows: token "
        "{}{} has none; convert the model again with the tokenizer it was trained with",
        file.name(), tokens->count, rows, rows, names ? " " + in_quotes((*names)[rows]) : ""));
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, 0xffffffff));
}

/// Refuses keys that ask for arithmetic attacca does not have, and notes keys it does not know.
void check_keys(const formats::GgufFile& file, ModelConfig& config) {
  const auto refuse = [&](const std::string& key, const std::string& supported) {
    throw BadArgument(
        fmt::format("{}: {} is {}; {}", file.name(), key, value_text(*file.value(key)), supported));
  };
  KeyCheck check(gguf_keys(), refuse, config.architecture->name);
  for (const auto& [key, value] : file.metadata()) check.check(key, value);
  check.add_note(file.name(), config.notes);
}

/// Attention divides scores by the root of the head's size. A file may say so, but nothing else.
void check_scale(const Keys& keys, const ModelConfig& config) {
  const double scale = keys.find<double>("attention.scale").value_or(0);
  const double root = std::sqrt(static_cast<double>(config.head_size));
  if (scale != 0 && !(std::abs(scale * root - 1) < 1e-5))
    keys.refuse("attention.scale", fmt::format("{}; 1 / sqrt({}), the head's size, is supported",
                                               scale, config.head_size));
}

void read_rope(const formats::GgufFile& file, const Keys& keys, ModelConfig& config) {
  config.rotary_size = keys.find<std::uint32_t>("rope.dimension_count").value_or(config.head_size);
  config.rope_theta = keys.find<double>("rope.freq_base").value_or(10000);
  // As llama.cpp does, read a factor without a type as linear scaling.
  const bool has_factor = keys.find<double>("rope.scaling.factor").value_or(0) != 0;
  const auto kind =
      keys.find<std::string_view>("rope.scaling.type").value_or(has_factor ? "linear" : "none");
  if (kind == "linear") {
    config.scaling.kind = RopeScaling::Kind::linear;
    config.scaling.factor = keys.get<double>("rope.scaling.factor");
  } else if (kind != "none") {
    keys.refuse("rope.scaling.type",
                in_quotes(kind) + "; none, linear and Llama 3's (rope_freqs.weight) are supported");
  }
  if (const formats::Tensor* divisors = file.tensor("rope_freqs.weight")) {
    config.rope_divisors = formats::to_floats(*divisors);
    if (config.rope_divisors.size() != config.rotary_size / 2)
      throw BadArgument(fmt::format("{}: tensor 'rope_freqs.weight' has shape {}; [{}] is expected",
                                    file.name(), formats::shape_text(divisors->shape),
                                    config.rotary_size / 2));
    for (const float divisor : config.rope_divisors)
      if (!(divisor > 0 && std::isfinite(divisor)))
        throw BadArgument(
            fmt::format("{}: tensor 'rope_freqs.weight' holds {}; a divisor of "
                        "frequencies is positive",
                        file.name(), divisor));
  }
}

std::optional<std::int32_t> token_id(const formats::GgufFile& file, const char* key,
                                     std::uint32_t vocabulary) {
  const auto id = file.find<std::uint32_t>(key);
  if (!id) return std::nullopt;
  if (*id >= vocabulary)
    throw BadArgument(fmt::format("{}: {} is {}; the vocabulary has {} tokens", file.name(), key,
                                  *id, vocabulary));
  return static_cast<std::int32_t>(*id);
}

void read_tokens(const formats::GgufFile& file, ModelConfig& config) {
  config.bos_id = token_id(file, "tokenizer.ggml.bos_token_id", config.vocabulary);
  config.eos_id = token_id(file, "tokenizer.ggml.eos_token_id", config.vocabulary);
  config.pad_id = token_id(file, "tokenizer.ggml.padding_token_id", config.vocabulary);
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    const auto id = token_id(file, key, config.vocabulary);
    if (id && std::find(config.eos_ids.begin(), config.eos_ids.end(), *id) == config.eos_ids.end())
      config.eos_ids.push_back(*id);
  }
}

}  // namespace

ModelConfig config_from_gguf(const formats::GgufFile& file) {
  if (const auto parts = file.find<std::uint32_t>("split.count"); parts && *parts > 1)
    throw BadArgument(
        fmt::format("{}: split.count is {}: the model is spread over as many files; "
                    "join them first",
                    file.name(), *parts));
  ModelConfig config;
  config.architecture = &architecture_of(file);
  config.pairs = config.architecture->gguf_pairs;
  const Keys keys(file, config.architecture->name);
  check_keys(file, config);

  config.name = file.find<std::string>("general.name").value_or("");
  config.vocabulary = vocabulary_of(file);
  config.hidden = keys.get<std::uint32_t>("embedding_length");
  config.layers = keys.get<std::uint32_t>("block_count");
  config.feed_forward = keys.get<std::uint32_t>("feed_forward_length");
  config.context = keys.get<std::uint32_t>("context_length");
  config.heads = keys.get<std::uint32_t>("attention.head_count");
  config.kv_heads = keys.find<std::uint32_t>("attention.head_count_kv").value_or(config.heads);
  config.head_size = keys.find<std::uint32_t>("attention.key_length")
                         .value_or(config.heads ? config.hidden / config.heads : 0);
  const auto values = keys.find<std::uint32_t>("attention.value_length");
  if (values && *values != config.head_size)
    keys.refuse("attention.value_length",
                fmt::format("{}; as keys, {}, is supported", *values, config.head_size));
  config.window = keys.find<std::uint32_t>("attention.sliding_window").value_or(0);
  config.norm_epsilon = keys.get<float>("attention.layer_norm_rms_epsilon");
  check_scale(keys, config);
  read_rope(file, keys, config);
  read_tokens(file, config);
  check_config(config, file.name(),
               {"the number of rows of token_embd.weight", keys.key("embedding_length"),
                keys.key("block_count"), keys.key("attention.head_count"),
                keys.key("attention.head_count_kv"), keys.key("attention.key_length"),
                keys.key("feed_forward_length"), keys.key("context_length"),
                keys.key("attention.layer_norm_rms_epsilon"), keys.key("rope.freq_base"),
                keys.key("rope.dimension_count"), keys.key("rope.scaling")});
  return config;
}

}  // namespace attacca::model
