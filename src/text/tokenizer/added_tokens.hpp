// added_tokens.hpp: tokens such as <|im_start|>, which are found in the text before it is
// normalized and merged. BPE does not produce them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/text_range.hpp"
#include "text/tokenizer/normalizer.hpp"

namespace attacca::text {

struct AddedToken {
  std::int32_t id = -1;
  std::string text;
  bool is_special = false;
  bool strips_left = false;   // the white space before it is part of it
  bool strips_right = false;  // the white space after it is part of it
  bool is_single_word = false;
  bool is_normalized = false;  // it is looked for in normalized text
};

inline constexpr std::size_t kMostAddedTokenBytes = 1024;

/// Finds the tokens of a list in texts: the leftmost token, and the longest that starts there.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  /// Cuts `text` at its tokens: calls `found(token, range)` front to back, with a null token for
  /// the text between tokens, which is never empty. A token with a literal byte does not count, nor
  /// does a special token unless `finds_special` is set.
  using Found = std::function<void(const AddedToken*, TextRange)>;
  void cut(const MarkedText& text, bool finds_special, const Found& found) const;

 private:
  const AddedToken* longest_at(const MarkedText& text, std::size_t at) const;

  std::vector<AddedToken> tokens_;  // sorted by text
  std::array<bool, 256> begins_{};  // by first byte
};

}  // namespace attacca::text
