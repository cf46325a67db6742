// utf8.cpp: reads, repairs and streams UTF-8.
#include "text/utf8.hpp"

namespace attacca::text {
namespace {

unsigned byte_at(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]);
}

/// The length of the leading run of ASCII.
std::size_t ascii_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size() && byte_at(bytes, at) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Character first_character(std::string_view bytes) {
  const unsigned lead = byte_at(bytes, 0);
  if (lead < 0x80) return {.code = lead, .length = 1, .is_valid = true};
  if (lead < 0xC2 || lead > 0xF4) return {.length = 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0x7Fu >> length);
  for (std::size_t at = 1; at < length; ++at) {
    if (at == bytes.size()) return {.length = at, .is_cut = true};
    const unsigned next = byte_at(bytes, at);
    // After some lead bytes the second byte has a narrower range. That excludes overlong forms,
    // surrogates and codes past U+10FFFF.
    const unsigned low = at > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = at > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (next < low || next > high) return {.length = at};
    code = (code << 6) | (next & 0x3F);
  }
  return {.code = code, .length = length, .is_valid = true};
}

char32_t first_code(std::string_view text, std::size_t* length) {
  const Utf8Character character = first_character(text);
  *length = character.length;
  return character.code;
}

bool is_utf8(std::string_view bytes) {
  while (true) {
    bytes.remove_prefix(ascii_prefix(bytes));
    if (bytes.empty()) return true;
    const Utf8Character character = first_character(bytes);
    if (!character.is_valid) return false;
    bytes.remove_prefix(character.length);
  }
}

std::string repaired(std::string_view bytes) {
  std::string result;
  Utf8Stream stream;
  stream.push(bytes, result);
  stream.finish(result);
  return result;
}

void append_utf8(std::string& text, char32_t code) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3F));
    add(0x80 | ((code >> 6) & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= '\t' && code <= '\r');
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

void Utf8Stream::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_.append(bytes);
    held_.clear();
    bytes = joined;
  }
  while (!bytes.empty()) {
    if (const std::size_t plain = ascii_prefix(bytes); plain > 0) {
      out += bytes.substr(0, plain);
      bytes.remove_prefix(plain);
      continue;
    }
    const Utf8Character character = first_character(bytes);
    if (character.is_cut) {
      held_ = bytes;
      return;
    }
    out += character.is_valid ? bytes.substr(0, character.length) : kReplacementCharacter;
    bytes.remove_prefix(character.length);
  }
}

void Utf8Stream::finish(std::string& out) {
  if (!held_.empty()) out += kReplacementCharacter;
  held_.clear();
}

}  // namespace attacca::text
