// config_keys.cpp: the tables of keys, and the check against them. The keys of config.json are
// those of LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config and their base class in
// transformers 5.22, and keys by which related architectures change the arithmetic. The GGUF keys
// are llama.cpp's.
#include "model/config_keys.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/in_quotes.hpp"

namespace attacca::model {

using nlohmann::json;

namespace {

using enum KeyUse;

constexpr KeyRule kConfigJson[] = {
    {"architectures", read},
    {"model_type", read},
    {"vocab_size", read},
    {"hidden_size", read},
    {"intermediate_size", read},
    {"num_hidden_layers", read},
    {"num_attention_heads", read},
    {"num_key_value_heads", read},
    {"head_dim", read},
    {"max_position_embeddings", read},
    {"rms_norm_eps", read},
    {"rope_theta", read},
    {"rope_scaling", read},
    {"rope_parameters", read},
    {"sliding_window", read},
    {"use_sliding_window", read},
    {"max_window_layers", read},
    {"layer_types", read},
    {"tie_word_embeddings", read},
    {"bos_token_id", read},
    {"eos_token_id", read},
    {"pad_token_id", read},

    {"hidden_act", fixed, R"(["silu", "swish"])"},
    {"attention_bias", fixed, "[false]"},
    {"mlp_bias", fixed, "[false]"},
    {"use_qk_norm", fixed, "[false]"},
    {"qk_norm", fixed, "[false]"},
    {"qk_layernorm", fixed, "[false]"},
    {"is_causal", fixed, "[true]"},
    {"use_bidirectional_attention", fixed, "[false]"},
    {"is_encoder_decoder", fixed, "[false]"},
    {"add_cross_attention", fixed, "[false]"},
    {"use_parallel_residual", fixed, "[false]"},
    {"alibi", fixed, "[false]"},
    {"use_mrope", fixed, "[false]"},
    {"rope_interleaved", fixed, "[false]"},
    {"rope_interleave", fixed, "[false]"},
    // RoPE on part of a head. transformers ignores the key in these architectures, other programs
    // do not.
    {"partial_rotary_factor", fixed, "[1]"},
    {"rotary_pct", fixed, "[1]"},
    {"rope_ratio", fixed, "[1]"},
    {"rope_local_base_freq", fixed, "[]"},
    {"no_rope_layers", fixed, "[]"},
    {"no_rope_layer_interval", fixed, "[]"},
    {"attention_chunk_size", fixed, "[]"},
    {"attention_multiplier", fixed, "[]"},
    {"query_pre_attn_scalar", fixed, "[]"},
    {"attn_logit_softcapping", fixed, "[]"},
    {"final_logit_softcapping", fixed, "[]"},
    {"embedding_multiplier", fixed, "[1]"},
    {"residual_multiplier", fixed, "[1]"},
    {"logits_scaling", fixed, "[1]"},
    {"logit_scale", fixed, "[1]"},
    {"scale_emb", fixed, "[1]"},
    {"scale_depth", fixed, "[]"},
    {"dim_model_base", fixed, "[]"},
    {"pruned_heads", fixed, "[{}]"},
    {"num_experts", fixed, "[0]"},
    {"num_local_experts", fixed, "[0]"},
    {"num_kv_shared_layers", fixed, "[0]"},
    {"quantization_config", fixed, "[]"},
    {"compression_config", fixed, "[]"},

    {"num_experts_per_tok", irrelevant},  // there are no experts
    {"pretraining_tp", irrelevant},       // it only slices the same products
    {"initializer_range", irrelevant},
    {"attention_dropout", irrelevant},
    {"hidden_dropout", irrelevant},
    {"mlp_dropout", irrelevant},
    {"embd_pdrop", irrelevant},
    {"resid_pdrop", irrelevant},
    {"use_cache", irrelevant},
    {"dtype", irrelevant},
    {"torch_dtype", irrelevant},
    {"use_bfloat16", irrelevant},
    {"torchscript", irrelevant},
    {"tf_legacy_loss", irrelevant},
    {"gradient_checkpointing", irrelevant},
    {"chunk_size_feed_forward", irrelevant},
    {"output_attentions", irrelevant},
    {"output_hidden_states", irrelevant},
    {"return_dict", irrelevant},
    {"id2label", irrelevant},
    {"label2id", irrelevant},
    {"problem_type", irrelevant},
    {"task_specific_params", irrelevant},
    {"finetuning_task", irrelevant},
    {"tokenizer_class", irrelevant},
    {"prefix", irrelevant},
    {"sep_token_id", irrelevant},
    {"unk_token_id", irrelevant},
    {"decoder_start_token_id", irrelevant},
    {"is_decoder", irrelevant},
    {"is_llama_config", irrelevant},
    {"tie_encoder_decoder", irrelevant},
    {"cross_attention_hidden_size", irrelevant},
    {"name_or_path", irrelevant},
    {"_name_or_path", irrelevant},
    {"_commit_hash", irrelevant},
    {"_attn_implementation*", irrelevant},
    {"attn_implementation", irrelevant},
    {"transformers_version", irrelevant},
    {"transformers.js_config", irrelevant},
    {"unsloth_*", irrelevant},
};

constexpr KeyRule kRopeJson[] = {
    {"rope_type", read},
    {"type", read},
    {"rope_theta", read},
    {"factor", read},
    {"low_freq_factor", read},
    {"high_freq_factor", read},
    {"original_max_position_embeddings", read},
    {"partial_rotary_factor", fixed, "[1]"},
    {"full_attention", fixed, "[]"},  // parameters for each kind of layer
    {"sliding_attention", fixed, "[]"},
};

constexpr KeyRule kGguf[] = {
    {"{}.context_length", read},
    {"{}.embedding_length", read},
    {"{}.block_count", read},
    {"{}.feed_forward_length", read},
    {"{}.attention.head_count", read},
    {"{}.attention.head_count_kv", read},
    {"{}.attention.key_length", read},
    {"{}.attention.value_length", read},
    {"{}.attention.layer_norm_rms_epsilon", read},
    {"{}.attention.sliding_window", read},
    {"{}.attention.scale", read},
    {"{}.rope.dimension_count", read},
    {"{}.rope.freq_base", read},
    {"{}.rope.scaling.type", read},
    {"{}.rope.scaling.factor", read},

    // llama.cpp reads a scale of 0 as no scale.
    {"{}.logit_scale", fixed, "[0, 1]"},
    {"{}.embedding_scale", fixed, "[0, 1]"},
    {"{}.residual_scale", fixed, "[0, 1]"},
    {"{}.attn_logit_softcapping", fixed, "[0]"},
    {"{}.final_logit_softcapping", fixed, "[0]"},
    {"{}.attention.causal", fixed, "[true]"},
    {"{}.attention.max_alibi_bias", fixed, "[0]"},
    {"{}.attention.clamp_kqv", fixed, "[0]"},
    {"{}.attention.sliding_window_pattern", fixed, "[]"},
    {"{}.use_parallel_residual", fixed, "[false]"},
    {"{}.rope.scale_linear", fixed, "[1]"},
    {"{}.rope.scaling.attn_factor", fixed, "[1]"},
    {"{}.rope.dimension_sections", fixed, "[]"},
    {"{}.expert_count", fixed, "[0]"},
    {"{}.nextn_predict_layers", fixed, "[0]"},
    {"general.type", fixed, R"(["model"])"},
    {"general.quantization_version", fixed, "[2]"},

    {"{}.vocab_size", irrelevant},  // the embedding's rows count
    {"{}.tensor_data_layout", irrelevant},
    {"{}.expert_used_count", irrelevant},  // there are no experts
    {"{}.attention.layer_norm_epsilon", irrelevant},
    {"{}.rope.scaling.original_context_length", irrelevant},
    {"{}.rope.scaling.finetuned", irrelevant},
    {"general.*", irrelevant},
    {"split.*", irrelevant},
    {"quantize.*", irrelevant},
    {"tokenizer.*", irrelevant},  // the tokenizer reads what it needs
};

/// The supported values in words: "silu", "0 or 1".
std::string text_of(const json& supported) {
  std::string text;
  for (const json& value : supported)
    text += (text.empty() ? "" : " or ") + (value.is_string() ? value.get<std::string>()  //
                                                              : value.dump());
  return text;
}

/// A number, bool or string as JSON. An array becomes an empty list.
json json_of(const formats::GgufValue& value) {
  if (value.is_array) return json::array();
  if (const auto truth = value.as<bool>()) return *truth;
  if (const auto text = value.as<std::string>()) return *text;
  if (const auto number = value.as<std::int64_t>()) return *number;
  if (const auto number = value.as<std::uint64_t>()) return *number;
  if (const auto number = value.as<double>()) return *number;
  return json::array();
}

}  // namespace

std::span<const KeyRule> config_json_keys() { return kConfigJson; }
std::span<const KeyRule> rope_json_keys() { return kRopeJson; }
std::span<const KeyRule> gguf_keys() { return kGguf; }

KeyCheck::KeyCheck(std::span<const KeyRule> rules, Refuse refuse, std::string architecture)
    : rules_(rules), refuse_(std::move(refuse)), architecture_(std::move(architecture)) {}

bool KeyCheck::matches(const KeyRule& rule, std::string_view key) const {
  std::string_view pattern = rule.key;
  if (pattern.starts_with("{}")) {
    if (!key.starts_with(architecture_)) return false;
    key.remove_prefix(architecture_.size());
    pattern.remove_prefix(2);
  }
  if (!pattern.ends_with('*')) return key == pattern;
  pattern.remove_suffix(1);
  return key.starts_with(pattern);
}

void KeyCheck::check(std::string_view key, const json& value) {
  const auto rule = std::find_if(rules_.begin(), rules_.end(),
                                 [&](const KeyRule& one) { return matches(one, key); });
  if (value.is_null()) return;
  if (rule == rules_.end()) {
    unknown_.emplace_back(key);
  } else if (rule->use == KeyUse::fixed) {
    const json supported = json::parse(rule->supported);
    if (std::find(supported.begin(), supported.end(), value) == supported.end())
      refuse_(std::string(key), supported.empty() ? "only models without it are supported"
                                                  : text_of(supported) + " is supported");
  }
}

void KeyCheck::check(std::string_view key, const formats::GgufValue& value) {
  check(key, json_of(value));
}

void KeyCheck::add_note(const std::string& file, std::vector<std::string>& notes) const {
  constexpr std::size_t kMost = 8;
  if (unknown_.empty()) return;
  std::string names;
  for (std::size_t at = 0; at < std::min(kMost, unknown_.size()); ++at)
    names += (at == 0 ? "" : ", ") + in_quotes(unknown_[at]);
  if (unknown_.size() > kMost) names += fmt::format(" and {} more", unknown_.size() - kMost);
  notes.push_back(
      fmt::format("{}: passed over, since attacca does not know what it means: {}", file, names));
}

std::string value_text(const formats::GgufValue& value) {
  const json content = json_of(value);
  if (content.is_array()) return "a list";
  return content.is_string() ? in_quotes(content.get_ref<const std::string&>()) : content.dump();
}

}  // namespace attacca::model
