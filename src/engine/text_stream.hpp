// text_stream.hpp: turns the tokens of one reply into text, piece by piece. It gives out whole
// characters only, and holds back text that may become a stop string. Stop tokens are the sampling
// kernel's matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/job.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::engine {

class TextStream final : public driver::ReplyText {
 public:
  /// Streams the text after `prompt`, which is read with the first token: by the text worker's
  /// thread, not by the one that submits. It ends before the first of `stops`; empty ones are
  /// ignored. REQUIRES: tokenizer and prompt outlive it.
  TextStream(const text::Tokenizer& tokenizer, std::span<const std::int32_t> prompt,
             std::vector<std::string> stops);

  /// The text that is certain after one more token; special tokens have none.
  std::string push(std::int32_t token) override;
  /// The text that was held back. Call it after the last token.
  std::string finish() override;
  /// Whether a stop string was found. No text comes after it.
  bool is_stopped() const override { return is_stopped_; }
  /// Whether there are stop strings. Thread-safe.
  bool may_stop() const override { return !stops_.empty(); }

 private:
  void read_prompt();
  std::string release(std::string text, bool is_last);

  text::Detokenizer detokenizer_;
  std::span<const std::int32_t> prompt_;  // empty once it is read
  std::vector<std::string> stops_;
  std::string held_;  // may be the start of a stop string
  bool is_stopped_ = false;
};

}  // namespace attacca::engine
