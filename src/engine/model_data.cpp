// model_data.cpp: opens a model with its tokenizer and chat template, and renders conversations.
#include "engine/model_data.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/in_quotes.hpp"
#include "model/embedded.hpp"
#include "text/chat/chat_options.hpp"
#include "text/tokenizer/open.hpp"

namespace attacca::llm::detail {

namespace {

using Json = nlohmann::ordered_json;

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

/// A message as templates see it. The arguments of calls are objects, not their texts.
Json turn_of(const Message& message) {
  Json turn = {{"role", message.role}, {"content", message.content}};
  for (const ToolCall& call : message.tool_calls) {
    Json arguments = Json::parse(call.arguments, nullptr, false);
    if (!arguments.is_object())
      throw BadArgument(
          fmt::format("the arguments of the call of {} are no JSON object", in_quotes(call.name)));
    turn["tool_calls"].push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
  }
  if (!message.tool_call_id.empty()) turn["tool_call_id"] = message.tool_call_id;
  return turn;
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

ToolFormat ModelData::tool_format() const {
  if (!chat_template) return ToolFormat::none;
  const auto has = [&](const char* text) {
    return chat_template->source().find(text) != std::string::npos;
  };
  if (!has("tools") || has("<arg_key>")) return ToolFormat::none;  // GLM's tags hold no JSON
  if (has("<tool_call>")) return ToolFormat::qwen;
  return has("<|python_tag|>") || has("ipython") ? ToolFormat::llama3 : ToolFormat::none;
}

std::vector<std::int32_t> ModelData::chat(std::span<const Message> messages,
                                          std::string_view tools) const {
  if (!chat_problem.empty())
    throw BadArgument(chat_problem + "; give the model a prompt to go on from instead");
  if (!chat_template)
    throw BadArgument("this model has no chat template; give it a prompt to go on from instead");
  const text::Tokenizer& words = require_tokenizer();
  Json turns = Json::array();
  for (const Message& message : messages) turns.push_back(turn_of(message));
  text::ChatOptions options;
  if (!tools.empty()) options.tools = Json::parse(tools, nullptr, false);
  if (options.tools.is_discarded()) throw BadArgument("the tools are not JSON; give a list");
  options.bos_token = text_of(words, config().bos_id);
  options.eos_token = text_of(words, config().eos_id);
  options.add_generation_prompt = true;
  const text::Rendered rendered = chat_template->render(turns, options);
  return words.encode(rendered.text, {.parse_special = true, .literal = rendered.literal});
}

}  // namespace attacca::llm::detail
