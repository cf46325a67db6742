// utf8.cpp: walks UTF-8 text character by character.
#include "text/chat/utf8.hpp"

#include <utf8proc.h>

#include "text/utf8.hpp"

namespace attacca::text::chat {
namespace {

constexpr char32_t kBrokenByte = 0xDC00;
constexpr char32_t kReplacement = 0xFFFD;

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

Character character_at(std::string_view bytes, std::size_t at) {
  const Utf8Character first = first_character(bytes.substr(at));
  if (first.is_valid) return {first.code, first.length, true};
  return {kBrokenByte + static_cast<unsigned char>(bytes[at]), 1, false};
}

Character character_before(std::string_view bytes, std::size_t end) {
  std::size_t start = end - 1;
  while (start > 0 && end - start < 4 && is_continuation(bytes[start])) --start;
  const Character found = character_at(bytes.substr(0, end), start);
  return start + found.size == end ? found : character_at(bytes.substr(0, end), end - 1);
}

void append_utf8(std::string& out, char32_t code) {
  const bool is_valid = code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
  text::append_utf8(out, is_valid ? code : kReplacement);
}

std::size_t count_characters(std::string_view bytes) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < bytes.size(); at += character_at(bytes, at).size) ++count;
  return count;
}

std::size_t byte_of_character(std::string_view bytes, std::size_t index) {
  std::size_t at = 0;
  for (; index > 0 && at < bytes.size(); --index) at += character_at(bytes, at).size;
  return at;
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_printable(char32_t code) {
  if (code == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

}  // namespace attacca::text::chat
