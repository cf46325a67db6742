// tool_calls.hpp: finds the calls of functions in a model's reply while it streams. Which tools
// there are, and how the model is told of them, is the chat template's matter.
#pragma once

#include <attacca/llm.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace attacca::server {

/// A piece of a call.
struct CallDelta {
  std::size_t call = 0;   // its number in the reply
  std::string name = {};  // of the function; empty but in the first delta of a call
  std::string arguments = {};
};

/// What a piece of a reply has become: text for the user, pieces of calls, or both.
struct ToolPiece {
  std::string content = {};
  std::vector<CallDelta> calls = {};
};

/// A whole reply.
struct ToolReply {
  std::string content = {};
  std::vector<llm::ToolCall> calls = {};
};
ToolReply read_calls(llm::ToolFormat format, std::string_view reply);

/// Follows brackets and strings of JSON from its first bracket to the one that closes it.
class JsonWalk {
 public:
  /// Whether this letter closes the first bracket. REQUIRES: the first letter is a bracket.
  bool take(char letter);

 private:
  std::size_t depth_ = 0;
  bool is_string_ = false;
  bool is_escaped_ = false;
};

/// Reads one reply as it comes. A call is told from its name on, and its arguments as the model
/// writes them; if it writes something else than a name first, when the call is complete. What
/// looks like a call before its arguments begin, and is none, is text: nothing is lost.
///
/// Qwen's format has each call as JSON between <tool_call> and </tool_call>. Text that may begin a
/// tag is held back. Llama 3's reply is text, or a call from its first letter on.
class ToolCallReader {
 public:
  explicit ToolCallReader(llm::ToolFormat format) : format_(format) {}

  ToolPiece push(std::string_view text);
  /// Call it after the last piece.
  ToolPiece finish();
  std::size_t calls() const { return calls_; }  // found so far

 private:
  /// text: no call has begun. body: a call may have, and its arguments have not. behind: they are
  /// complete, and the call's last bracket is to come. tag: its last tag is.
  enum class Place { text, body, arguments, behind, tag };

  void read(ToolPiece& piece, bool is_last);
  // Each reads on at its place. False: it must wait for more.
  bool read_text(ToolPiece& piece, bool is_last);
  bool read_body(ToolPiece& piece, bool is_last);
  bool read_arguments(ToolPiece& piece);
  bool read_behind();
  bool read_tag();

  void begin_body();
  void end_call(std::size_t length);
  void take_body_as_text(ToolPiece& piece);
  void add_content(ToolPiece& piece, std::string_view text);

  llm::ToolFormat format_;
  Place place_ = Place::text;
  std::string held_;
  JsonWalk walk_;
  std::size_t walked_ = 0;      // letters of the body that `walk_` has seen
  bool is_whole_ = false;       // the body is told when it is complete
  bool is_text_ = false;        // no call can come any more
  bool is_after_call_ = false;  // blanks only separate a call from what follows
  std::size_t calls_ = 0;
};

}  // namespace attacca::server
