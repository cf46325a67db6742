// decoder.hpp: turns the spellings of tokens back into text, one token at a time. Which tokens are
// skipped is decided in tokenizer.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/tokenizer/regex.hpp"
#include "text/utf8.hpp"

namespace attacca::text {

/// The steps that spellings go through, in order; their results are joined. Immutable.
struct Decoder {
  /// Turns the byte alphabet into bytes, and broken UTF-8 into U+FFFD. Later steps see one text.
  struct ByteLevel {};
  /// Turns <0xNN> into bytes. If a run of such tokens is not valid UTF-8, each becomes a U+FFFD.
  struct ByteFallback {};
  /// Turns `mark` into a space. With `drops_first`, drops it from the first token.
  struct Metaspace {
    std::string mark;
    bool drops_first = true;
  };
  struct Replace {
    Regex pattern;
    std::string with;
  };
  /// Joins all tokens. Later steps see one text.
  struct Fuse {};
  /// Removes up to so many `letter`s at both ends of every token, or of the one text.
  struct Strip {
    std::string letter;  // one character
    std::size_t at_start = 0;
    std::size_t at_end = 0;
    bool is_after_fuse = false;
  };
  /// Puts a space between tokens, for a tokenizer that names no decoder.
  struct JoinWithSpaces {};
  using Step =
      std::variant<ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, JoinWithSpaces>;

  std::vector<Step> steps;  // after ByteLevel or Fuse, only Strip

  /// The bytes of one token by itself. They may be part of a character.
  std::string bytes_of_token(std::string_view spelling) const;
};

/// One decoding. `push` appends to `out` the text that later tokens cannot change; `finish` appends
/// the rest.
class DecodeStream {
 public:
  /// REQUIRES: the decoder outlives it.
  explicit DecodeStream(const Decoder& decoder);

  void push(std::string_view spelling, std::string& out);
  void finish(std::string& out);

 private:
  struct State {
    std::string held;
    std::size_t count = 0;  // tokens seen, or letters stripped
    bool has_begun = false;
    Utf8Stream utf8;
  };
  void feed(std::size_t step, std::string_view text, std::string& out);
  void flush(std::size_t step, std::string& out);
  void run(const Decoder::ByteLevel&, std::size_t step, std::string_view text, std::string& out);
  void run(const Decoder::ByteFallback&, std::size_t step, std::string_view text, std::string& out);
  void run(const Decoder::Metaspace&, std::size_t step, std::string_view text, std::string& out);
  void run(const Decoder::Replace&, std::size_t step, std::string_view text, std::string& out);
  void run(const Decoder::Fuse&, std::size_t step, std::string_view text, std::string& out);
  void run(const Decoder::Strip&, std::size_t step, std::string_view text, std::string& out);
  void run(const Decoder::JoinWithSpaces&, std::size_t step, std::string_view text,
           std::string& out);

  const Decoder* decoder_;
  std::vector<State> states_;  // one per step
};

}  // namespace attacca::text
