// model_data.cpp: opens a model with its tokenizer and chat template, and renders conversations.
#include "engine/model_data.hpp"

#include <attacca/error.hpp>
#include <nlohmann/json.hpp>

#include "model/embedded.hpp"
#include "text/chat/chat_options.hpp"
#include "text/tokenizer/open.hpp"

namespace attacca::llm::detail {

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
void read_chat_template(ModelData& data) {
  if (!data.tokenizer) return;
  try {
    if (const auto source = data.checkpoint.chat_template())
      data.chat_template.emplace(*source, data.checkpoint.path().string() + ": chat template");
  } catch (const BadArgument& error) {
    data.chat_problem = error.what();
    data.notes.push_back(data.chat_problem + "; the model goes on from texts, but does not chat");
  }
}

std::string text_of(const text::Tokenizer& tokenizer, std::optional<std::int32_t> token) {
  return token ? std::string(tokenizer.piece(*token)) : std::string();
}

}  // namespace

std::shared_ptr<const ModelData> ModelData::open(const std::string& path,
                                                 const Progress& progress) {
  auto data =
      std::make_shared<ModelData>(ModelData{open_checkpoint(path, progress), {}, {}, {}, {}});
  data->tokenizer = tokenizer_of(data->checkpoint);
  data->notes = data->config().notes;
  read_chat_template(*data);
  return data;
}

const text::Tokenizer& ModelData::require_tokenizer() const {
  if (!tokenizer)
    throw BadArgument(
        "this model came without a tokenizer; put its tokenizer.json beside it, or use tokens");
  return *tokenizer;
}

std::vector<std::int32_t> ModelData::chat(std::span<const Message> messages) const {
  if (!chat_problem.empty())
    throw BadArgument(chat_problem + "; give the model a prompt to go on from instead");
  if (!chat_template)
    throw BadArgument("this model has no chat template; give it a prompt to go on from instead");
  const text::Tokenizer& words = require_tokenizer();
  nlohmann::ordered_json turns = nlohmann::ordered_json::array();
  for (const Message& message : messages)
    turns.push_back({{"role", message.role}, {"content", message.content}});
  text::ChatOptions options;
  options.bos_token = text_of(words, config().bos_id);
  options.eos_token = text_of(words, config().eos_id);
  options.add_generation_prompt = true;
  const text::Rendered rendered = chat_template->render(turns, options);
  return words.encode(rendered.text, {.parse_special = true, .literal = rendered.literal});
}

}  // namespace attacca::llm::detail
