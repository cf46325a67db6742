// byte_alphabet.cpp: builds the tables from bytes to characters and back.
#include "text/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstdint>

#include "text/utf8.hpp"

namespace attacca::text {
namespace {

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<std::int16_t, 0x144> bytes;  // by character; -1: it stands for no byte

  Alphabet() {
    bytes.fill(-1);
    char32_t next_free = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable =
          (byte > ' ' && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);  // 0xAD: soft hyphen
      const char32_t character = is_printable ? byte : next_free++;
      append_utf8(characters[byte], character);
      bytes[character] = static_cast<std::int16_t>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet kAlphabet;
  return kAlphabet;
}

}  // namespace

std::string_view character_of(unsigned char byte) { return alphabet().characters[byte]; }

std::optional<unsigned char> byte_of(char32_t character) {
  const auto& bytes = alphabet().bytes;
  if (character >= bytes.size() || bytes[character] < 0) return std::nullopt;
  return static_cast<unsigned char>(bytes[character]);
}

std::string bytes_of(std::string_view spelling) {
  std::string result;
  for (std::string_view left = spelling; !left.empty();) {
    std::size_t length = 0;
    const std::optional<unsigned char> byte = byte_of(first_code(left, &length));
    if (!byte) return std::string(spelling);
    result += static_cast<char>(*byte);
    left.remove_prefix(length);
  }
  return result;
}

}  // namespace attacca::text
