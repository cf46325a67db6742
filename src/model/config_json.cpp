// config_json.cpp: a configuration out of Hugging Face's config.json and generation_config.json.
#include <fmt/format.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <filesystem>

#include "model/config.hpp"
#include "model/in_quotes.hpp"
#include "model/json.hpp"

namespace attacca::model {

using nlohmann::json;

namespace {

constexpr int kNesting = 16;

const Architecture& architecture_of(const JsonFields& fields) {
  if (const json* names = fields.find("architectures")) {
    if (!names->is_array()) fields.refuse("architectures", "a list is expected");
    for (const json& name : *names)
      if (name.is_string())
        if (const auto* found = find_hf_architecture(name.get_ref<const std::string&>()))
          return *found;
    fields.refuse("architectures", architecture_names() + " are supported");
  }
  const std::string type = fields.text("model_type").value_or("");
  if (const Architecture* found = find_hf_architecture(type)) return *found;
  fields.refuse("model_type", architecture_names() + " are supported");
}

/// What would change the arithmetic, and is not there.
void refuse_variants(const JsonFields& fields) {
  if (const auto activation = fields.text("hidden_act"); activation && *activation != "silu")
    fields.refuse("hidden_act", "silu is supported");
  for (const char* key : {"attention_bias", "mlp_bias"})
    if (fields.truth(key).value_or(false)) fields.refuse(key, "false is supported");
  for (const char* key : {"quantization_config", "num_local_experts", "num_experts"})
    if (fields.find(key)) fields.refuse(key, "plain dense weights are supported");
}

void read_scaling(const JsonFields& fields, const char* key, const std::string& file,
                  RopeScaling& scaling) {
  const json* object = fields.find(key);
  if (!object) return;
  const JsonFields rope(*object, fmt::format("{}: {}", file, key));
  const std::string kind = rope.text("rope_type").value_or(rope.text("type").value_or("default"));
  if (kind == "default") return;
  if (kind != "linear" && kind != "llama3")
    fields.refuse(key, "the types default, linear and llama3 are supported");
  scaling.kind = kind == "linear" ? RopeScaling::Kind::linear : RopeScaling::Kind::llama3;
  const auto number = [&](const char* name) {
    const std::optional<double> value = rope.number(name);
    if (!value) fields.refuse(key, fmt::format("'{}' is missing", name));
    return *value;
  };
  scaling.factor = number("factor");
  if (kind == "linear") return;
  scaling.low_frequency_factor = number("low_freq_factor");
  scaling.high_frequency_factor = number("high_freq_factor");
  scaling.original_context = number("original_max_position_embeddings");
}

void read_rope(const JsonFields& fields, const std::string& file, ModelConfig& config) {
  // Newer files hold all of it in one object, older ones the base beside the scaling.
  double share = fields.number("partial_rotary_factor").value_or(1);
  config.rope_theta = fields.number("rope_theta").value_or(10000);
  if (const json* object = fields.find("rope_parameters")) {
    const JsonFields rope(*object, file + ": rope_parameters");
    config.rope_theta = rope.number("rope_theta").value_or(config.rope_theta);
    share = rope.number("partial_rotary_factor").value_or(share);
  }
  if (!(share > 0 && share <= 1))
    fields.refuse("partial_rotary_factor", "a number between 0 and 1 is expected");
  config.rotary_size = static_cast<std::uint32_t>(config.head_size * share);
  read_scaling(fields, "rope_scaling", file, config.scaling);
  read_scaling(fields, "rope_parameters", file, config.scaling);
}

/// The window of all layers; a model that has it in some only is refused.
std::uint32_t window_of(const JsonFields& fields, std::uint32_t layers) {
  const std::uint32_t window = fields.count("sliding_window").value_or(0);
  // Mistral's files do not mention the switch, Llama's window means nothing.
  const bool is_used = fields.truth("use_sliding_window")
                           .value_or(fields.text("model_type").value_or("") == "mistral");
  if (window == 0 || !is_used) return 0;
  std::size_t sliding = layers;
  if (const json* types = fields.find("layer_types")) {
    if (!types->is_array() || types->size() != layers)
      fields.refuse("layer_types", "a list with a name for each layer is expected");
    sliding = static_cast<std::size_t>(
        std::count(types->begin(), types->end(), json("sliding_attention")));
  } else if (fields.find("use_sliding_window")) {
    sliding -= std::min(layers, fields.count("max_window_layers").value_or(0));
  }
  if (sliding != 0 && sliding != layers)
    fields.refuse("sliding_window",
                  fmt::format("for {} of {} layers; all or none is supported", sliding, layers));
  return sliding ? window : 0;
}

/// A token's id, or a list of them.
std::vector<std::int32_t> token_ids(const JsonFields& fields, const char* key,
                                    std::uint32_t vocabulary) {
  std::vector<std::int32_t> ids;
  const auto add = [&](const json& id) {
    if (id == -1) return;  // "there is none", in some files
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= vocabulary)
      fields.refuse(key, fmt::format("an id below the vocabulary's {} is expected", vocabulary));
    ids.push_back(id.get<std::int32_t>());
  };
  const json* value = fields.find(key);
  if (value && value->is_array())
    for (const json& id : *value) add(id);
  else if (value)
    add(*value);
  return ids;
}

std::optional<std::int32_t> first_of(const std::vector<std::int32_t>& ids) {
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

void read_tokens(const JsonFields& fields, ModelConfig& config) {
  if (const auto id = first_of(token_ids(fields, "bos_token_id", config.vocabulary)))
    config.bos_id = id;
  if (const auto id = first_of(token_ids(fields, "pad_token_id", config.vocabulary)))
    config.pad_id = id;
  const std::vector<std::int32_t> eos = token_ids(fields, "eos_token_id", config.vocabulary);
  if (!eos.empty()) config.eos_id = eos.front();
  for (const std::int32_t id : eos)
    if (std::find(config.eos_ids.begin(), config.eos_ids.end(), id) == config.eos_ids.end())
      config.eos_ids.push_back(id);
}

GenerationDefaults generation_of(const JsonFields& fields) {
  const auto number = [&](const char* key) {
    const std::optional<double> value = fields.number(key);
    return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
  };
  return {.does_sample = fields.truth("do_sample"),
          .temperature = number("temperature"),
          .top_p = number("top_p"),
          .min_p = number("min_p"),
          .top_k = fields.count("top_k"),
          .repetition_penalty = number("repetition_penalty")};
}

}  // namespace

ModelConfig config_from_json(std::string_view config_text, std::string_view generation,
                             const std::string& folder) {
  const std::string file = (std::filesystem::path(folder) / "config.json").string();
  const json object = parse_json(config_text, file, kNesting);
  const JsonFields fields(object, file);
  ModelConfig config;
  config.architecture = &architecture_of(fields);
  config.pairs = config.architecture->hf_pairs;
  refuse_variants(fields);
  config.vocabulary = fields.require_count("vocab_size");
  config.hidden = fields.require_count("hidden_size");
  config.layers = fields.require_count("num_hidden_layers");
  config.heads = fields.require_count("num_attention_heads");
  config.kv_heads = fields.count("num_key_value_heads").value_or(config.heads);
  config.head_size =
      fields.count("head_dim").value_or(config.heads ? config.hidden / config.heads : 0);
  config.feed_forward = fields.require_count("intermediate_size");
  config.context = fields.require_count("max_position_embeddings");
  config.norm_epsilon = static_cast<float>(fields.number("rms_norm_eps").value_or(1e-6));
  config.is_tied = fields.truth("tie_word_embeddings");
  config.window = window_of(fields, config.layers);
  read_rope(fields, file, config);
  check_config(config, file,
               {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings",
                "rms_norm_eps", "rope_theta", "partial_rotary_factor",
                fields.find("rope_parameters") ? "rope_parameters" : "rope_scaling"});
  read_tokens(fields, config);
  if (!generation.empty()) {
    const std::string generation_file =
        (std::filesystem::path(folder) / "generation_config.json").string();
    const json advice = parse_json(generation, generation_file, kNesting);
    const JsonFields generation_fields(advice, generation_file);
    read_tokens(generation_fields, config);
    config.generation = generation_of(generation_fields);
  }
  return config;
}

}  // namespace attacca::model
