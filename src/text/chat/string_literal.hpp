// string_literal.hpp: reads quoted strings in a template. Their escapes are Python's.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attacca::text::chat {

/// The byte past the closing quote of the literal that starts at `begin`.
std::size_t end_of_string_literal(std::string_view source, std::size_t begin);

/// The text between the quotes, with escapes resolved. An unknown escape stays as it is.
std::string string_literal_value(std::string_view source, std::size_t begin, std::size_t end);

}  // namespace attacca::text::chat
