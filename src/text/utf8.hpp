// utf8.hpp: reading and writing UTF-8. Text from outside may be broken; everything behind
// `repaired` may rely on valid UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attacca::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// What stands at the start of some bytes.
struct Utf8Character {
  char32_t code = 0;       // meaningful where is_valid
  std::size_t length = 0;  // bytes; of a broken sequence, those one U+FFFD stands for
  bool is_valid = false;
  bool is_cut = false;  // broken only for want of more bytes
};

/// REQUIRES: bytes not empty. Broken sequences are measured as Unicode recommends (the longest
/// prefix of a valid one, or one byte), like Python's errors="replace" and Rust's lossy decoding.
Utf8Character first_character(std::string_view bytes);

/// The first character of valid UTF-8, not empty.
char32_t first_code(std::string_view text, std::size_t* length);

bool is_utf8(std::string_view bytes);

/// Every broken sequence replaced by U+FFFD.
std::string repaired(std::string_view bytes);

void append_utf8(std::string& text, char32_t code);

/// Unicode's White_Space.
bool is_white_space(char32_t code);

/// Turns bytes that come in portions into valid UTF-8: concatenated, its answers are `repaired` of
/// all that was pushed. What may become a character is held back.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string held_;
};

}  // namespace attacca::text
