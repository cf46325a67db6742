// text_stream.hpp: from the tokens of one reply to its text, piece by piece: whole characters only,
// and nothing that may turn out to be the beginning of a stop string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer/tokenizer.hpp"

namespace attacca::engine {

class TextStream {
 public:
  /// For what follows `prompt`. Ends before the first of `stops`; empty ones are ignored.
  TextStream(const text::Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
             std::vector<std::string> stops);

  /// The text that is certain after one more token; special tokens have none.
  std::string push(std::int32_t token);
  /// What was held back, once no token follows.
  std::string finish();
  /// Whether a stop string has come. Nothing comes after it.
  bool is_stopped() const { return is_stopped_; }

 private:
  std::string release(std::string text, bool is_last);

  text::Detokenizer detokenizer_;
  std::vector<std::string> stops_;
  std::string held_;  // may be the beginning of a stop string
  bool is_stopped_ = false;
};

}  // namespace attacca::engine
