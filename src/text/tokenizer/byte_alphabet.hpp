// byte_alphabet.hpp: the printable character that stands for each byte in the vocabularies of
// byte-level tokenizers: itself where it is printable Latin-1, else the next free one from U+0100.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace attacca::text {

/// The character for a byte, as UTF-8.
std::string_view character_of(unsigned char byte);

/// The byte a character stands for; none where it stands for none.
std::optional<unsigned char> byte_of(char32_t character);

/// The bytes a token's spelling stands for; the spelling itself where a character of it stands for
/// no byte, as in added tokens with spaces.
std::string bytes_of(std::string_view spelling);

}  // namespace attacca::text
