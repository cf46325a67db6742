// tool_calls.cpp: tags and JSON of calls.
#include "server/tool_calls.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace attacca::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBegin = "<tool_call>";
constexpr std::string_view kEnd = "</tool_call>";
constexpr int kMostNesting = 64;
constexpr const char* kSpace = " \t\r\n";

/// {"name": ..., "arguments": {...}}; Llama calls them parameters.
std::optional<llm::ToolCall> call_of(std::string_view text) {
  bool is_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    is_deep |= depth > kMostNesting;
    return !is_deep;
  };
  const Json value = Json::parse(text, watch, false);
  if (is_deep || !value.is_object() || !value.contains("name") || !value["name"].is_string())
    return std::nullopt;
  for (const char* key : {"arguments", "parameters"})
    if (value.contains(key) && value[key].is_object())
      return llm::ToolCall{.name = value["name"], .arguments = value[key].dump()};
  return std::nullopt;
}

/// How many letters at the end of a text may begin the tag.
std::size_t beginning_of(std::string_view tag, std::string_view text) {
  std::size_t length = std::min(tag.size() - 1, text.size());
  while (!text.ends_with(tag.substr(0, length))) --length;
  return length;
}

}  // namespace

ToolPiece read_calls(llm::ToolFormat format, std::string_view reply) {
  ToolCallReader reader(format);
  ToolPiece piece = reader.push(reply), rest = reader.finish();
  piece.content += rest.content;
  piece.calls.insert(piece.calls.end(), rest.calls.begin(), rest.calls.end());
  return piece;
}

ToolPiece ToolCallReader::push(std::string_view text) {
  ToolPiece piece;
  held_ += text;
  if (format_ == llm::ToolFormat::qwen) {
    read_tags(piece, false);
    return piece;
  }
  const std::size_t first = held_.find_first_not_of(kSpace);
  is_text_ = is_text_ || format_ == llm::ToolFormat::none ||
             (first != std::string::npos && held_[first] != '{');
  if (is_text_) piece.content = std::exchange(held_, {});
  return piece;
}

ToolPiece ToolCallReader::finish() {
  ToolPiece piece;
  if (format_ == llm::ToolFormat::qwen)
    read_tags(piece, true);
  else if (format_ != llm::ToolFormat::llama3 || !add_call(piece, held_))
    piece.content = held_;
  held_.clear();
  return piece;
}

void ToolCallReader::read_tags(ToolPiece& piece, bool is_last) {
  while (true) {
    if (is_inside_) {
      if (!read_call(piece, is_last)) return;
      is_inside_ = false;
    }
    const std::size_t at = held_.find(kBegin);
    if (at == std::string::npos) break;
    add_content(piece, held_.substr(0, at));
    held_.erase(0, at + kBegin.size());
    is_inside_ = true;
  }
  const std::size_t certain = held_.size() - (is_last ? 0 : beginning_of(kBegin, held_));
  add_content(piece, held_.substr(0, certain));
  held_.erase(0, certain);
}

bool ToolCallReader::read_call(ToolPiece& piece, bool is_last) {
  const std::string_view held = held_;
  const std::size_t first = held.find(kEnd);
  // A tag that leaves no JSON before it may be within a string.
  for (std::size_t at = first; at != std::string::npos; at = held.find(kEnd, at + 1)) {
    if (!add_call(piece, held.substr(0, at))) continue;
    held_.erase(0, at + kEnd.size());
    return true;
  }
  if (!is_last) return false;
  const std::size_t end = first == std::string::npos ? held_.size() : first + kEnd.size();
  if (first != std::string::npos || !add_call(piece, held))
    piece.content += std::string(kBegin) + held_.substr(0, end);
  held_.erase(0, end);
  return true;
}

bool ToolCallReader::add_call(ToolPiece& piece, std::string_view body) {
  auto call = call_of(body);
  if (!call) return false;
  piece.calls.push_back(std::move(*call));
  ++calls_;
  return true;
}

/// Blanks behind a call only separate it from the next one.
void ToolCallReader::add_content(ToolPiece& piece, std::string_view text) {
  if (calls_ > 0 && text.find_first_not_of(kSpace) == std::string_view::npos) return;
  piece.content += text;
}

}  // namespace attacca::server
