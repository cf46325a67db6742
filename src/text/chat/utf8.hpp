// utf8.hpp: characters of UTF-8 text, one at a time. Bytes that are not UTF-8 count as characters
// of their own, so any string can be walked and cut without losing a byte.
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

/// The character that starts at byte `at`, which is inside `bytes`.
Character character_at(std::string_view bytes, std::size_t at);
/// The one that ends before byte `end`, which is past the start.
Character character_before(std::string_view bytes, std::size_t end);

/// A lone surrogate, which UTF-8 cannot say, becomes U+FFFD.
void append_utf8(std::string& out, char32_t code);

std::size_t count_characters(std::string_view bytes);
/// The byte where character number `index` starts; the size of `bytes` past the last one.
std::size_t byte_of_character(std::string_view bytes, std::size_t index);

/// As Python's str.isspace and str.isprintable see one character.
bool is_space(char32_t code);
bool is_printable(char32_t code);

}  // namespace attacca::text::chat
