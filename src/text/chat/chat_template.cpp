// chat_template.cpp: parses a template, gives it its variables and renders it. Values from the
// caller are marked as such here.
#include "text/chat/chat_template.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>

#include "text/chat/chat_options.hpp"
#include "text/chat/interpreter.hpp"
#include "text/chat/parser.hpp"

namespace attacca::text {

using chat::Origin;
using chat::Text;
using chat::Value;

struct ChatTemplate::Parsed {
  std::string where;
  std::string source;  // with plain newlines
  chat::Body body;
};

namespace {

constexpr std::string_view kRoles[] = {"assistant", "developer", "function",
                                       "system",    "tool",      "user"};

/// The names of common roles count as the author's, because templates make special tokens of them.
Origin origin_of_role(const nlohmann::ordered_json& role) {
  const bool is_common =
      role.is_string() && std::find(std::begin(kRoles), std::end(kRoles),
                                    role.get_ref<const std::string&>()) != std::end(kRoles);
  return is_common ? Origin::author : Origin::caller;
}

Value to_message(const nlohmann::ordered_json& message) {
  if (!message.is_object()) return Value::from_json(message, Origin::caller);
  chat::Entries entries;
  for (const auto& [key, value] : message.items())
    entries.emplace_back(
        Value::text(Text(key, Origin::caller)),
        Value::from_json(value, key == "role" ? origin_of_role(value) : Origin::caller));
  return Value::dict(std::move(entries), Origin::caller);
}

std::vector<std::pair<std::string, Value>> variables_of(const nlohmann::ordered_json& messages,
                                                        const ChatOptions& options) {
  chat::Items list;
  for (const auto& message : messages) add_item(list, to_message(message));
  std::vector<std::pair<std::string, Value>> variables;
  variables.emplace_back("messages", Value::list(std::move(list), Origin::caller));
  variables.emplace_back("tools", Value::from_json(options.tools, Origin::caller));
  variables.emplace_back("add_generation_prompt", Value::boolean(options.add_generation_prompt));
  variables.emplace_back("bos_token", Value::text(Text(options.bos_token)));
  variables.emplace_back("eos_token", Value::text(Text(options.eos_token)));
  const auto own = variables;
  for (const auto& [name, value] : options.variables.items()) {
    for (const auto& known : own)
      if (known.first == name)
        throw BadArgument(
            fmt::format("the variable '{}' has a field of its own in ChatOptions", name));
    variables.emplace_back(name, Value::from_json(value, Origin::caller));
  }
  if (!options.variables.contains("documents")) variables.emplace_back("documents", Value::none());
  return variables;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string where) {
  if (source.size() > kMaxSource)
    throw BadArgument(fmt::format("{}: {} bytes; a chat template has at most {}", where,
                                  source.size(), kMaxSource));
  auto parsed = std::make_shared<Parsed>();
  parsed->where = std::move(where);
  parsed->source = chat::with_plain_newlines(source);
  try {
    parsed->body = chat::Parser(chat::tokenize(parsed->source)).parse();
  } catch (const chat::SyntaxProblem& problem) {
    throw BadArgument(fmt::format("{}, {}: {}", parsed->where,
                                  chat::place_of(parsed->source, problem.at()), problem.what()));
  }
  parsed_ = std::move(parsed);
}

const std::string& ChatTemplate::source() const { return parsed_->source; }

Rendered ChatTemplate::render(const nlohmann::ordered_json& messages) const {
  return render(messages, ChatOptions());
}

Rendered ChatTemplate::render(const nlohmann::ordered_json& messages,
                              const ChatOptions& options) const {
  if (!messages.is_array())
    throw BadArgument(fmt::format("messages are {}, not an array", messages.type_name()));
  if (!options.variables.is_null() && !options.variables.is_object())
    throw BadArgument(
        fmt::format("the variables are {}, not an object", options.variables.type_name()));
  std::vector<std::pair<std::string, Value>> variables;
  try {
    variables = variables_of(messages, options);
  } catch (const chat::Problem& problem) {
    throw BadArgument(fmt::format("messages, tools or variables: {}", problem.what()));
  }
  chat::Interpreter run(std::move(variables),
                        options.now.value_or(std::chrono::system_clock::now()));
  try {
    const Text text = run.run(parsed_->body);
    return {text.bytes(), text.literal()};
  } catch (const chat::Problem& problem) {
    throw BadArgument(fmt::format("{}, {}: {}", parsed_->where,
                                  chat::place_of(parsed_->source, run.at()), problem.what()));
  }
}

}  // namespace attacca::text
