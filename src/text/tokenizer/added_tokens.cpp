// added_tokens.cpp: finds added tokens in a text. The search goes byte by byte and narrows a sorted
// list to the tokens that agree so far.
#include "text/tokenizer/added_tokens.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "text/utf8.hpp"

namespace attacca::text {
namespace {

/// Whether Unicode counts a character as part of a word: letter, mark, digit, connector or joiner.
bool is_word(char32_t code) {
  if (code == 0x200C || code == 0x200D) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // some symbols are alphabetic: letters in circles and squares
      return (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
             (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
  }
}

char32_t last_code(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  std::size_t length = 0;
  return first_code(text.substr(at), &length);
}

std::size_t spaces_before(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size()) {
    const std::string_view left = text.substr(0, text.size() - count);
    const char32_t code = last_code(left);
    if (!is_white_space(code)) break;
    count += code < 0x80 ? 1 : code < 0x800 ? 2 : 3;
  }
  return count;
}

std::size_t spaces_after(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size()) {
    std::size_t length = 0;
    if (!is_white_space(first_code(text.substr(count), &length))) break;
    count += length;
  }
  return count;
}

bool stands_alone(std::string_view text, TextRange range) {
  std::size_t length = 0;
  return (range.begin == 0 || !is_word(last_code(text.substr(0, range.begin)))) &&
         (range.end == text.size() || !is_word(first_code(text.substr(range.end), &length)));
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const auto& left, const auto& right) { return left.text < right.text; });
  for (const AddedToken& token : tokens_) begins_[static_cast<unsigned char>(token.text[0])] = true;
}

const AddedToken* AddedTokens::longest_at(const MarkedText& text, std::size_t at) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (std::size_t depth = 0; at + depth < text.text.size(); ++depth) {
    if (!text.is_literal.empty() && text.is_literal[at + depth]) break;
    const auto byte = static_cast<unsigned char>(text.text[at + depth]);
    const auto byte_of = [&](const AddedToken& token) {
      return depth < token.text.size() ? static_cast<unsigned char>(token.text[depth]) : -1;
    };
    low = std::lower_bound(low, high, byte,
                           [&](const auto& token, int wanted) { return byte_of(token) < wanted; });
    high = std::upper_bound(low, high, byte,
                            [&](int wanted, const auto& token) { return wanted < byte_of(token); });
    if (low == high) break;
    if (low->text.size() == depth + 1) longest = &*low;
  }
  return longest;
}

void AddedTokens::cut(const MarkedText& text, bool finds_special, const Found& found) const {
  const std::string_view all = text.text;
  std::size_t cut_end = 0;  // `found` was called for the text up to here
  for (std::size_t at = 0; at < all.size();) {
    const AddedToken* token =
        begins_[static_cast<unsigned char>(all[at])] ? longest_at(text, at) : nullptr;
    if (!token) {
      ++at;
      continue;
    }
    TextRange range{at, at + token->text.size()};
    at = range.end;
    if (token->is_special && !finds_special) continue;
    if (token->is_single_word && !stands_alone(all, range)) continue;
    // A token may lie in white space that the token before it has stripped.
    range.begin = std::max(range.begin, cut_end);
    range.end = std::max(range.end, cut_end);
    if (token->strips_left)
      range.begin -= spaces_before(all.substr(cut_end, range.begin - cut_end));
    if (token->strips_right) range.end += spaces_after(all.substr(range.end));
    if (cut_end < range.begin) found(nullptr, {cut_end, range.begin});
    found(token, range);
    cut_end = range.end;
  }
  if (cut_end < all.size()) found(nullptr, {cut_end, all.size()});
}

}  // namespace attacca::text
