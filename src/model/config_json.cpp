// config_json.cpp: reads a configuration from Hugging Face's config.json and
// generation_config.json, and a chat template from tokenizer_config.json. The table of keys is
// config_keys.cpp.
#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/in_quotes.hpp"
#include "formats/json.hpp"
#include "model/config.hpp"
#include "model/config_keys.hpp"

namespace attacca::model {

using nlohmann::json;

namespace {

constexpr int kNesting = 16;

const Architecture& architecture_of(const formats::JsonFields& fields) {
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

/// Refuses keys that ask for arithmetic attacca does not have, and notes keys it does not know.
void check_keys(const formats::JsonFields& fields, const std::string& file, ModelConfig& config) {
  const auto refuse = [&](const std::string& key, const std::string& supported) {
    fields.refuse(key.c_str(), supported);
  };
  KeyCheck check(config_json_keys(), refuse);
  for (const auto& [key, value] : fields.object().items()) {
    // Qwen2 has these biases whatever the key says.
    if (key == "attention_bias" && config.architecture->has_qkv_bias) continue;
    check.check(key, value);
  }
  check.add_note(file, config.notes);
}

/// The contents of a "rope_parameters" or "rope_scaling" object.
struct Rope {
  RopeScaling scaling;
  std::optional<double> theta;
};

std::optional<Rope> read_rope(const formats::JsonFields& fields, const char* key,
                              const std::string& file, std::vector<std::string>& notes) {
  const json* object = fields.find(key);
  if (!object) return std::nullopt;
  const std::string place = fmt::format("{}: {}", file, key);
  const formats::JsonFields rope(*object, place);
  KeyCheck check(rope_json_keys(), [&](const std::string& name, const std::string& supported) {
    rope.refuse(name.c_str(), supported);
  });
  for (const auto& [name, value] : object->items()) check.check(name, value);
  check.add_note(place, notes);
  Rope result{{}, rope.number("rope_theta")};
  RopeScaling& scaling = result.scaling;
  const std::string kind = rope.text("rope_type").value_or(rope.text("type").value_or("default"));
  if (kind == "default") return result;
  if (kind != "linear" && kind != "llama3")
    fields.refuse(key, "the types default, linear and llama3 are supported");
  scaling.kind = kind == "linear" ? RopeScaling::Kind::linear : RopeScaling::Kind::llama3;
  const auto number = [&](const char* name) {
    const std::optional<double> value = rope.number(name);
    if (!value) fields.refuse(key, fmt::format("'{}' is missing", name));
    return *value;
  };
  scaling.factor = number("factor");
  if (kind == "linear") return result;
  scaling.low_frequency_factor = number("low_freq_factor");
  scaling.high_frequency_factor = number("high_freq_factor");
  scaling.original_context = number("original_max_position_embeddings");
  return result;
}

/// Newer files hold base and scaling in one object, older ones the base beside the scaling. Some
/// files have both forms.
void read_rope(const formats::JsonFields& fields, const std::string& file, ModelConfig& config) {
  const auto newer = read_rope(fields, "rope_parameters", file, config.notes);
  const auto older = read_rope(fields, "rope_scaling", file, config.notes);
  if (newer && older && newer->scaling != older->scaling)
    fields.refuse("rope_scaling", "'rope_parameters' is there too and says something else");
  const Rope rope = newer.value_or(older.value_or(Rope{}));
  config.rotary_size = config.head_size;
  config.scaling = rope.scaling;
  config.rope_theta = rope.theta.value_or(fields.number("rope_theta").value_or(10000));
}

bool is_mistral(const formats::JsonFields& fields) {
  if (const auto type = fields.text("model_type")) return *type == "mistral";
  const json* names = fields.find("architectures");
  return names && std::count(names->begin(), names->end(), json("MistralForCausalLM")) != 0;
}

/// How many layers have a sliding window by "layer_types"; none if the key is absent.
std::optional<std::uint32_t> sliding_layers(const formats::JsonFields& fields,
                                            std::uint32_t layers) {
  const json* types = fields.find("layer_types");
  if (!types) return std::nullopt;
  const auto count = [&](const char* name) {
    return static_cast<std::uint32_t>(std::count(types->begin(), types->end(), json(name)));
  };
  if (!types->is_array() || types->size() != layers ||
      count("full_attention") + count("sliding_attention") != layers)
    fields.refuse("layer_types",
                  "a list with full_attention or sliding_attention for each layer is expected");
  return count("sliding_attention");
}

/// The window of all layers, by the rules of transformers. Refuses a model in which only some
/// layers have one.
std::uint32_t window_of(const formats::JsonFields& fields, const std::string& file,
                        ModelConfig& config) {
  constexpr std::uint32_t kDefaultWindow = 4096;  // if the key is absent, which differs from null
  constexpr std::uint32_t kDefaultFull = 28;      // layers of Qwen without a window
  const bool is_qwen = config.architecture->name != std::string_view("llama");
  const std::optional<std::uint32_t> listed = sliding_layers(fields, config.layers);
  std::uint32_t window =
      fields.names("sliding_window") ? fields.count("sliding_window").value_or(0) : kDefaultWindow;
  std::uint32_t sliding = config.layers;
  if (is_qwen) {
    if (!fields.truth("use_sliding_window").value_or(false)) window = 0;
    sliding -= std::min(sliding, fields.count("max_window_layers").value_or(kDefaultFull));
    sliding = listed.value_or(sliding);
  } else if (is_mistral(fields)) {
    if (window != 0 && !fields.truth("use_sliding_window").value_or(true))
      fields.refuse("use_sliding_window",
                    fmt::format("Mistral has no such switch, and its window is {}; make "
                                "'sliding_window' null to have none",
                                window));
  } else {
    if (window != 0 && fields.find("sliding_window"))
      config.notes.push_back(fmt::format(
          "{}: 'sliding_window' is {}, but Llama has no window: every token sees all before it",
          file, window));
    window = 0;
  }
  if (window == 0) sliding = 0;
  if (listed && *listed != sliding)
    fields.refuse("layer_types", fmt::format("with a window of {} for {} of {} layers it "
                                             "contradicts the rest of the file",
                                             window, sliding, config.layers));
  if (sliding != 0 && sliding != config.layers)
    fields.refuse("sliding_window", fmt::format("for {} of {} layers; all or none is supported",
                                                sliding, config.layers));
  return sliding ? window : 0;
}

/// Reads a token's id, or a list of ids.
std::vector<std::int32_t> token_ids(const formats::JsonFields& fields, const char* key,
                                    std::uint32_t vocabulary) {
  std::vector<std::int32_t> ids;
  const auto add = [&](const json& id) {
    if (id == -1) return;  // some files say "none" that way
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

void read_tokens(const formats::JsonFields& fields, ModelConfig& config) {
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

GenerationDefaults generation_of(const formats::JsonFields& fields) {
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
  const json object = formats::parse_json(config_text, file, kNesting);
  const formats::JsonFields fields(object, file);
  ModelConfig config;
  config.architecture = &architecture_of(fields);
  config.pairs = config.architecture->hf_pairs;
  check_keys(fields, file, config);
  config.vocabulary = fields.require_count("vocab_size");
  config.hidden = fields.require_count("hidden_size");
  config.layers = fields.require_count("num_hidden_layers");
  config.heads = fields.require_count("num_attention_heads");
  // If these keys are absent, which differs from null, transformers has defaults for each model.
  const bool is_llama = config.architecture->name == std::string_view("llama");
  if (!is_llama || is_mistral(fields)) fields.require("num_key_value_heads");
  if (config.architecture->has_qk_norm) fields.require("head_dim");
  config.kv_heads = fields.count("num_key_value_heads").value_or(config.heads);
  config.head_size =
      fields.count("head_dim").value_or(config.heads ? config.hidden / config.heads : 0);
  config.feed_forward = fields.require_count("intermediate_size");
  config.context = fields.require_count("max_position_embeddings");
  config.norm_epsilon = static_cast<float>(fields.number("rms_norm_eps").value_or(1e-6));
  config.is_tied = fields.truth("tie_word_embeddings");
  config.window = window_of(fields, file, config);
  read_rope(fields, file, config);
  check_config(config, file,
               {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "head_dim", "intermediate_size", "max_position_embeddings",
                "rms_norm_eps", "rope_theta", "head_dim",
                fields.find("rope_parameters") ? "rope_parameters" : "rope_scaling"});
  read_tokens(fields, config);
  if (!generation.empty()) {
    const std::string generation_file =
        (std::filesystem::path(folder) / "generation_config.json").string();
    const json advice = formats::parse_json(generation, generation_file, kNesting);
    const formats::JsonFields generation_fields(advice, generation_file);
    read_tokens(generation_fields, config);
    config.generation = generation_of(generation_fields);
  }
  return config;
}

std::optional<std::string> chat_template_from_json(std::string_view text, const std::string& file) {
  const json object = formats::parse_json(text, file, 32);
  const formats::JsonFields fields(object, file);
  const json* found = fields.find("chat_template");
  if (!found) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) fields.refuse("chat_template", "a string or a list is expected");
  for (const json& one : *found) {
    const formats::JsonFields named(one, file + ": chat_template");
    if (named.text("name") == "default") return named.text("template");
  }
  return std::nullopt;
}

}  // namespace attacca::model
