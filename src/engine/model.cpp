// model.cpp: llm::Model, the public face of ModelData.
#include <attacca/llm.hpp>

#include "engine/model_data.hpp"

namespace attacca::llm {

Model::Model(const std::string& path, const Progress& progress)
    : data_(detail::ModelData::open(path, progress)) {}

const std::string& Model::name() const { return data_->config().name; }
std::size_t Model::context() const { return data_->config().context; }
std::size_t Model::vocabulary() const { return data_->config().vocabulary; }
std::size_t Model::parameters_per_token() const {
  const model::ModelConfig& c = data_->config();
  const std::size_t queries = std::size_t{c.heads} * c.head_size;
  const std::size_t keys = std::size_t{c.kv_heads} * c.head_size;
  return c.layers * c.hidden * (2 * queries + 2 * keys + 3 * std::size_t{c.feed_forward});
}
bool Model::has_chat_template() const {
  return data_->chat_template.has_value() || !data_->chat_problem.empty();
}
const std::vector<std::string>& Model::notes() const { return data_->notes; }

Sampling Model::advised_sampling() const {
  const model::GenerationDefaults& advised = data_->config().generation;
  Sampling sampling;
  if (!advised.does_sample.value_or(advised.temperature.has_value())) return sampling;
  sampling.temperature = advised.temperature.value_or(1);
  sampling.top_p = advised.top_p.value_or(1);
  sampling.min_p = advised.min_p.value_or(0);
  sampling.top_k = static_cast<int>(advised.top_k.value_or(0));
  sampling.repetition_penalty = advised.repetition_penalty.value_or(1);
  return sampling;
}

std::vector<std::int32_t> Model::tokenize(std::string_view text, bool parses_special) const {
  return data_->require_tokenizer().encode(text, {.parse_special = parses_special});
}

std::string Model::detokenize(std::span<const std::int32_t> tokens) const {
  return data_->require_tokenizer().decode(tokens);
}

std::string Model::token_bytes(std::int32_t token) const {
  return data_->require_tokenizer().bytes(token);
}

std::vector<std::int32_t> Model::chat(std::span<const Message> messages,
                                      std::string_view tools) const {
  return data_->chat(messages, tools);
}

ToolFormat Model::tool_format() const { return data_->tool_format(); }

}  // namespace attacca::llm
