// decoder.hpp: from the spellings of tokens back to text, one token at a time.
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
  /// From the byte alphabet to bytes; broken UTF-8 becomes U+FFFD. All is one text from here on.
  struct ByteLevel {};
  /// <0xNN> to bytes. A run of such tokens that is no valid UTF-8 becomes a U+FFFD each.
  struct ByteFallback {};
  /// `mark` to a space; in the first token to nothing, where `drops_first`.
  struct Metaspace {
    std::string mark;
    bool drops_first = true;
  };
  struct Replace {
    Regex pattern;
    std::string with;
  };
  /// All is one text from here on.
  struct Fuse {};
  /// Takes up to so many `letter`s away at both ends: of every token, or of the one text.
  struct Strip {
    std::string letter;  // one character
    std::size_t at_start = 0;
    std::size_t at_end = 0;
    bool is_after_fuse = false;
  };
  /// A space between the tokens, for a tokenizer that names no decoder.
  struct JoinWithSpaces {};
  using Step =
      std::variant<ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, JoinWithSpaces>;

  std::vector<Step> steps;  // after ByteLevel or Fuse, only Strip

  /// What one token stands for by itself: maybe part of a character.
  std::string bytes_of_token(std::string_view spelling) const;
};

/// One decoding. `push` appends what is certain to `out`; after `finish` that is all there is.
class DecodeStream {
 public:
  /// REQUIRES: the decoder outlives this.
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
