// llm.cpp: the public face: Model and Engine of llm.hpp.
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <nlohmann/json.hpp>
#include <utility>

#include "engine/engine_core.hpp"
#include "engine/model_data.hpp"
#include "model/embedded.hpp"
#include "text/tokenizer/open.hpp"

namespace attacca::llm {

namespace {

model::Checkpoint open_checkpoint(const std::string& path, const Progress& progress) {
  return path.empty() ? model::open_embedded() : model::Checkpoint::open(path, progress);
}

/// None where the files have none.
std::optional<text::Tokenizer> tokenizer_of(const model::Checkpoint& checkpoint) {
  std::optional<text::Tokenizer> tokenizer;
  std::filesystem::path path = checkpoint.path();
  if (const formats::GgufFile* file = checkpoint.gguf()) {
    if (!file->value("tokenizer.ggml.tokens")) return std::nullopt;
    tokenizer = text::read_tokenizer(*file);
  } else {
    path = checkpoint.tokenizer_files().tokenizer_json;
    if (path.empty()) return std::nullopt;
    tokenizer = text::open_tokenizer(path);
  }
  text::check_ids(*tokenizer, checkpoint.config().vocabulary, path.string());
  return tokenizer;
}

/// A template that cannot be used stops chats, and nothing else.
void read_chat_template(detail::ModelData& data) {
  if (!data.tokenizer) return;
  try {
    if (const auto source = data.checkpoint.chat_template())
      data.chat_template.emplace(*source, data.checkpoint.path().string() + ": chat template");
  } catch (const BadArgument& error) {
    data.chat_problem = error.what();
    data.notes.push_back(data.chat_problem + "; the model goes on from texts, but does not chat");
  }
}

std::shared_ptr<const detail::ModelData> open(const std::string& path, const Progress& progress) {
  auto data = std::make_shared<detail::ModelData>(
      detail::ModelData{open_checkpoint(path, progress), {}, {}, {}, {}});
  data->tokenizer = tokenizer_of(data->checkpoint);
  data->notes = data->config().notes;
  read_chat_template(*data);
  return data;
}

std::string text_of(const text::Tokenizer& tokenizer, std::optional<std::int32_t> token) {
  return token ? std::string(tokenizer.piece(*token)) : std::string();
}

}  // namespace

const text::Tokenizer& detail::ModelData::words() const {
  if (!tokenizer)
    throw BadArgument(
        "this model came without a tokenizer; put its tokenizer.json beside it, or use tokens");
  return *tokenizer;
}

Model::Model(const std::string& path, const Progress& progress) : data_(open(path, progress)) {}

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
  return data_->words().encode(text, {.parse_special = parses_special});
}

std::string Model::detokenize(std::span<const std::int32_t> tokens) const {
  return data_->words().decode(tokens);
}

std::vector<std::int32_t> Model::chat(std::span<const Message> messages) const {
  if (!data_->chat_problem.empty())
    throw BadArgument(data_->chat_problem + "; give the model a prompt to go on from instead");
  if (!data_->chat_template)
    throw BadArgument("this model has no chat template; give it a prompt to go on from instead");
  const text::Tokenizer& tokenizer = data_->words();
  nlohmann::ordered_json turns = nlohmann::ordered_json::array();
  for (const Message& message : messages)
    turns.push_back({{"role", message.role}, {"content", message.content}});
  text::ChatOptions options;
  options.bos_token = text_of(tokenizer, data_->config().bos_id);
  options.eos_token = text_of(tokenizer, data_->config().eos_id);
  options.add_generation_prompt = true;
  const text::Rendered rendered = data_->chat_template->render(turns, options);
  return tokenizer.encode(rendered.text, {.parse_special = true, .literal = rendered.literal});
}

const char* finish_name(Finish finish) {
  switch (finish) {
    case Finish::stop:
      return "stop";
    case Finish::length:
      return "length";
    case Finish::cancelled:
      return "cancelled";
    case Finish::failed:
      return "failed";
  }
  return "";
}

Engine::Engine(const Model& model, const EngineOptions& options, const Progress& progress)
    : core_(std::make_unique<detail::EngineCore>(model, options, progress)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Reply Engine::generate(const Request& request) { return core_->generate(request); }
std::vector<Reply> Engine::generate(std::span<const Request> requests) {
  return core_->generate(requests);
}
std::vector<TokenLogprob> Engine::score(std::span<const std::int32_t> tokens) {
  return core_->score(tokens);
}
const EngineOptions& Engine::options() const { return core_->options(); }
EngineMemory Engine::memory() const { return core_->memory(); }
EngineStats Engine::stats() const { return core_->stats(); }
std::size_t Engine::longest_sequence() const { return core_->longest_sequence(); }
std::vector<GraphCoverage> Engine::coverage() const { return core_->coverage(); }
std::vector<Product> Engine::products() const { return core_->products(); }
std::vector<StepRecord> Engine::records() const { return core_->records(); }

}  // namespace attacca::llm
