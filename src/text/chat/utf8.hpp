// utf8.hpp: reads UTF-8 text one character at a time. Bytes that are not UTF-8 count as characters
// of their own, so any string can be walked and cut without losing a byte. The tokenizer, which
// repairs broken text, has text/utf8.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attacca::text::chat {

struct Character {
  char32_t code = 0;
  std::size_t size = 1;
  bool is_valid = true;  // a broken byte has the code of a lone surrogate, which no valid text has
};

/// The character that starts at byte `at`. REQUIRES: `at` is inside `bytes`.
Character character_at(std::string_view bytes, std::size_t at);
/// The character that ends before byte `end`. REQUIRES: `end` is not 0.
Character character_before(std::string_view bytes, std::size_t end);

/// A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
void append_utf8(std::string& out, char32_t code);

std::size_t count_characters(std::string_view bytes);
/// The byte at which character `index` starts; past the last one, the size of `bytes`.
std::size_t byte_of_character(std::string_view bytes, std::size_t index);

/// Python's str.isspace and str.isprintable for one character.
bool is_space(char32_t code);
bool is_printable(char32_t code);

}  // namespace attacca::text::chat
