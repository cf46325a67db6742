// chat_template.hpp: a model's chat template, which turns a conversation into the text the model
// was trained on. Templates are written in Jinja; docs/chat-templates.md says how much of it is
// supported.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/text_range.hpp"

namespace attacca::text {

struct ChatOptions;  // chat_options.hpp

struct Rendered {
  std::string text;
  /// Bytes that came from messages, tools and variables: sorted, disjoint. No special token may be
  /// recognised in or across them, or users could forge one. The names of the common roles are not
  /// included: templates build tokens of them, as in "<|" + role + "|>".
  std::vector<TextRange> literal;
};

/// Parsed once, then rendered at will, from any thread.
class ChatTemplate {
 public:
  static constexpr std::size_t kMaxSource = 1 << 20;

  /// `where` names the template in messages. Throws BadArgument with the line, the column and the
  /// token found there.
  explicit ChatTemplate(std::string source, std::string where = "chat_template");

  /// `messages`: an array of objects with a role and a content. Throws BadArgument, with the line,
  /// if the template refuses the conversation or fails.
  Rendered render(const nlohmann::ordered_json& messages) const;
  Rendered render(const nlohmann::ordered_json& messages, const ChatOptions& options) const;

  const std::string& source() const;

 private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace attacca::text
