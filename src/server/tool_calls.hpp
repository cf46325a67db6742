// tool_calls.hpp: finds the calls of functions in a model's reply while it streams. Which tools
// there are, and how the model is told of them, is the chat template's matter.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attacca::server {

/// What a piece of a reply has become: text for the user, calls, or both.
struct ToolPiece {
  std::string content = {};
  std::vector<llm::ToolCall> calls = {};
};

/// A whole reply.
ToolPiece read_calls(llm::ToolFormat format, std::string_view reply);

/// Reads one reply as it comes. A call is told when it is complete. What looks like one and cannot
/// be read is text: nothing is lost.
///
/// Qwen's format has each call as JSON between <tool_call> and </tool_call>. Text that may begin a
/// tag is held back. Llama 3's reply is either text or JSON from its first letter on; the JSON is
/// held back until the end.
class ToolCallReader {
 public:
  explicit ToolCallReader(llm::ToolFormat format) : format_(format) {}

  ToolPiece push(std::string_view text);
  /// Call it after the last piece.
  ToolPiece finish();
  std::size_t calls() const { return calls_; }  // found so far

 private:
  void read_tags(ToolPiece& piece, bool is_last);
  /// Takes what is between tags. False: it must wait for more.
  bool read_call(ToolPiece& piece, bool is_last);
  bool add_call(ToolPiece& piece, std::string_view body);
  void add_content(ToolPiece& piece, std::string_view text);

  llm::ToolFormat format_;
  std::string held_;
  bool is_inside_ = false;  // between tags
  bool is_text_ = false;    // no call can come any more
  std::size_t calls_ = 0;
};

}  // namespace attacca::server
