// byte_alphabet.hpp: the printable character that stands for each byte in the vocabularies of
// byte-level tokenizers. It is the byte's own Latin-1 character if that is printable, else the next
// free character from U+0100 on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attacca::text {

/// The character for a byte, as UTF-8.
std::string_view character_of(unsigned char byte);

/// The byte that a character stands for, if any.
std::optional<unsigned char> byte_of(char32_t character);

/// The bytes that a token's spelling stands for. If one of its characters stands for no byte, as in
/// added tokens with spaces, the spelling itself.
std::string bytes_of(std::string_view spelling);

}  // namespace attacca::text
