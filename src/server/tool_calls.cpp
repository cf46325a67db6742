// tool_calls.cpp: tags and JSON of calls.
#include "server/tool_calls.hpp"

#include <algorithm>
#include <array>
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

/// {"name": ..., "arguments": {...}}, whatever their order; Llama calls them parameters.
std::optional<CallDelta> call_of(std::string_view text) {
  bool is_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    is_deep |= depth > kMostNesting;
    return !is_deep;
  };
  const Json value = Json::parse(text, watch, false);
  if (is_deep || !value.is_object() || !value.contains("name") || !value["name"].is_string() ||
      value["name"] == "")
    return std::nullopt;
  for (const char* key : {"arguments", "parameters"})
    if (value.contains(key) && value[key].is_object())
      return CallDelta{.name = value["name"], .arguments = value[key].dump()};
  return std::nullopt;
}

enum class Found { no, maybe, yes };  // maybe: the text ends too early to tell

/// The beginning of a call, up to the bracket of its arguments.
struct CallHead {
  Found found = Found::no;
  std::string name = {};
  std::size_t length = 0;  // without that bracket
};

/// Reads the words of a beginning, with blanks between them.
class HeadReader {
 public:
  explicit HeadReader(std::string_view text) : text_(text) {}

  Found word(std::string_view expected) {
    skip_blanks();
    const std::string_view next = text_.substr(at_, expected.size());
    if (!expected.starts_with(next)) return Found::no;
    if (next.size() < expected.size()) return Found::maybe;
    at_ += expected.size();
    return Found::yes;
  }
  /// A JSON string that is not empty.
  Found string(std::string& value) {
    const std::size_t quote = text_.find_first_not_of(kSpace, at_);
    if (const Found found = word("\""); found != Found::yes) return found;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return Found::maybe;
    const Json parsed = Json::parse(text_.substr(quote, ++at_ - quote), nullptr, false);
    if (!parsed.is_string() || parsed.get_ref<const std::string&>().empty()) return Found::no;
    value = parsed;
    return Found::yes;
  }
  std::size_t at() const { return at_; }

 private:
  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size()); }

  std::string_view text_;
  std::size_t at_ = 0;
};

CallHead head_of(std::string_view text) {
  HeadReader reader(text);
  CallHead head;
  const auto words = [&](std::initializer_list<std::string_view> expected) {
    for (const std::string_view word : expected)
      if (head.found = reader.word(word); head.found != Found::yes) return false;
    return true;
  };
  if (!words({"{", "\"name\"", ":"})) return head;
  if (head.found = reader.string(head.name); head.found != Found::yes) return head;
  if (!words({","})) return head;
  if (!words({"\"arguments\""}) && (head.found == Found::maybe || !words({"\"parameters\""})))
    return head;
  if (words({":", "{"})) head.length = reader.at() - 1;
  return head;
}

/// How many letters at the end of a text may begin the tag.
std::size_t beginning_of(std::string_view tag, std::string_view text) {
  std::size_t length = std::min(tag.size() - 1, text.size());
  while (!text.ends_with(tag.substr(0, length))) --length;
  return length;
}

}  // namespace

ToolReply read_calls(llm::ToolFormat format, std::string_view reply) {
  ToolCallReader reader(format);
  ToolReply result;
  for (const ToolPiece& piece : std::array{reader.push(reply), reader.finish()}) {
    result.content += piece.content;
    for (const CallDelta& delta : piece.calls) {
      result.calls.resize(delta.call + 1);
      result.calls.back().name += delta.name;
      result.calls.back().arguments += delta.arguments;
    }
  }
  return result;
}

bool JsonWalk::take(char letter) {
  if (is_string_) {
    if (!is_escaped_ && letter == '"') is_string_ = false;
    is_escaped_ = !is_escaped_ && letter == '\\';
    return false;
  }
  is_string_ = letter == '"';
  if (letter == '{' || letter == '[') ++depth_;
  return (letter == '}' || letter == ']') && --depth_ == 0;
}

ToolPiece ToolCallReader::push(std::string_view text) {
  ToolPiece piece;
  held_ += text;
  read(piece, false);
  return piece;
}

ToolPiece ToolCallReader::finish() {
  ToolPiece piece;
  read(piece, true);
  held_.clear();
  return piece;
}

void ToolCallReader::read(ToolPiece& piece, bool is_last) {
  const auto read_on = [&] {
    switch (place_) {
      case Place::text:
        return read_text(piece, is_last);
      case Place::body:
        return read_body(piece, is_last);
      case Place::arguments:
        return read_arguments(piece);
      case Place::behind:
        return read_behind();
      case Place::tag:
        return read_tag();
    }
    return false;
  };
  while (read_on()) {
  }
}

bool ToolCallReader::read_text(ToolPiece& piece, bool is_last) {
  if (format_ == llm::ToolFormat::qwen) {
    const std::size_t at = held_.find(kBegin);
    const bool is_found = at != std::string::npos;
    const std::size_t certain =
        is_found ? at : held_.size() - (is_last ? 0 : beginning_of(kBegin, held_));
    add_content(piece, std::string_view(held_).substr(0, certain));
    held_.erase(0, certain + (is_found ? kBegin.size() : 0));
    if (is_found) begin_body();
    return is_found;
  }
  const std::size_t first = held_.find_first_not_of(kSpace);
  if (!is_text_ && format_ == llm::ToolFormat::llama3) {
    if (first == std::string::npos && !is_last) return false;
    is_text_ = true;
    if (first != std::string::npos && held_[first] == '{') {
      begin_body();
      return true;
    }
  }
  add_content(piece, held_);
  held_.clear();
  return false;
}

bool ToolCallReader::read_body(ToolPiece& piece, bool is_last) {
  const std::size_t first = held_.find_first_not_of(kSpace);
  const bool is_blank = first == std::string::npos;
  if ((is_blank && is_last) || (!is_blank && held_[first] != '{')) {
    take_body_as_text(piece);
    return true;
  }
  if (is_blank) return false;
  if (!is_whole_) {
    CallHead head = head_of(std::string_view(held_).substr(first));
    if (head.found == Found::yes) {
      piece.calls.push_back({.call = calls_++, .name = std::move(head.name)});
      held_.erase(0, first + head.length);
      place_ = Place::arguments;
      return true;
    }
    is_whole_ = head.found == Found::no;
  }
  for (walked_ = std::max(walked_, first); is_whole_ && walked_ < held_.size();)
    if (walk_.take(held_[walked_++])) {
      auto call = call_of(std::string_view(held_).substr(0, walked_));
      if (!call) {
        take_body_as_text(piece);
        return true;
      }
      call->call = calls_++;
      piece.calls.push_back(std::move(*call));
      end_call(walked_);
      return true;
    }
  if (is_last) take_body_as_text(piece);
  return is_last;
}

bool ToolCallReader::read_arguments(ToolPiece& piece) {
  std::size_t length = 0;
  bool is_complete = false;
  while (!is_complete && length < held_.size()) is_complete = walk_.take(held_[length++]);
  if (length == 0) return false;
  if (piece.calls.empty() || piece.calls.back().call + 1 != calls_)
    piece.calls.push_back({.call = calls_ - 1});
  piece.calls.back().arguments += held_.substr(0, length);
  held_.erase(0, length);
  if (is_complete) place_ = Place::behind;
  return is_complete;
}

bool ToolCallReader::read_behind() {
  const std::size_t bracket = held_.find('}');
  const std::size_t tag = format_ == llm::ToolFormat::qwen ? held_.find(kEnd) : std::string::npos;
  if (bracket == std::string::npos && tag == std::string::npos) return false;
  end_call(bracket < tag ? bracket + 1 : tag);
  return true;
}

bool ToolCallReader::read_tag() {
  const std::size_t first = std::min(held_.find_first_not_of(kSpace), held_.size());
  const std::string_view next = std::string_view(held_).substr(first, kEnd.size());
  if (next.size() < kEnd.size() && kEnd.starts_with(next)) return false;
  if (next == kEnd) held_.erase(0, first + kEnd.size());
  place_ = Place::text;
  return true;
}

void ToolCallReader::begin_body() {
  place_ = Place::body;
  walk_ = {};
  walked_ = 0;
  is_whole_ = false;
}

void ToolCallReader::end_call(std::size_t length) {
  held_.erase(0, length);
  is_after_call_ = true;
  place_ = format_ == llm::ToolFormat::qwen ? Place::tag : Place::text;
}

void ToolCallReader::take_body_as_text(ToolPiece& piece) {
  if (format_ == llm::ToolFormat::qwen) add_content(piece, kBegin);
  place_ = Place::text;
}

void ToolCallReader::add_content(ToolPiece& piece, std::string_view text) {
  if (is_after_call_) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (text.empty()) return;
  is_after_call_ = false;
  piece.content += text;
}

}  // namespace attacca::server
