// added_tokens.hpp: tokens that are found in the text before anything else happens to it, such as
// <|im_start|>.
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
  bool strips_left = false;   // takes the white space before it along
  bool strips_right = false;  // and after it
  bool is_single_word = false;
  bool is_normalized = false;  // looked for in normalized text
};

inline constexpr std::size_t kMostAddedTokenBytes = 1024;

/// Finds the tokens of a list in texts: the leftmost, and there the longest.
class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  /// Cuts `text` at the tokens in it: calls `found(token, range)` front to back, with a null token
  /// for what lies between; no such range is empty. A token with a literal byte is no token, nor is
  /// a special one unless `finds_special`.
  using Found = std::function<void(const AddedToken*, TextRange)>;
  void cut(const MarkedText& text, bool finds_special, const Found& found) const;

 private:
  const AddedToken* longest_at(const MarkedText& text, std::size_t at) const;

  std::vector<AddedToken> tokens_;  // sorted by text
  std::array<bool, 256> begins_{};  // by first byte
};

}  // namespace attacca::text
