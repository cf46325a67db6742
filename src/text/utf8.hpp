// utf8.hpp: reads and writes UTF-8. Text from outside may be broken; code that gets the result of
// `repaired` may rely on valid UTF-8. Chat templates, which keep broken bytes, have chat/utf8.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attacca::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// The character, or the broken sequence, at the start of some bytes.
struct Utf8Character {
  char32_t code = 0;       // meaningful if is_valid
  std::size_t length = 0;  // in bytes; for a broken sequence, the bytes that one U+FFFD replaces
  bool is_valid = false;
  bool is_cut = false;  // broken only because the bytes end too soon
};

/// REQUIRES: bytes not empty. Broken sequences are measured as Unicode recommends (the longest
/// prefix of a valid one, or one byte), like Python's errors="replace" and Rust's lossy decoding.
Utf8Character first_character(std::string_view bytes);

/// The first character. REQUIRES: the text is valid UTF-8 and not empty.
char32_t first_code(std::string_view text, std::size_t* length);

bool is_utf8(std::string_view bytes);

/// The text with every broken sequence replaced by U+FFFD.
std::string repaired(std::string_view bytes);

void append_utf8(std::string& text, char32_t code);

/// Whether Unicode's property White_Space holds.
bool is_white_space(char32_t code);

/// Turns bytes that come in portions into valid UTF-8. Its answers, concatenated, are `repaired` of
/// all bytes pushed. It holds back bytes that may become a character.
class Utf8Stream {
 public:
  void push(std::string_view bytes, std::string& out);
  void finish(std::string& out);

 private:
  std::string held_;
};

}  // namespace attacca::text
