// string_formats.hpp: the formats of strings that JSON schemas name, as regular expressions.
#pragma once

#include <optional>
#include <string_view>

namespace attacca::grammar {

/// For a whole string. Nothing if the format is not supported.
std::optional<std::string_view> format_pattern(std::string_view name);

/// Whether the standard defines the format. Formats it does not define are annotations.
bool is_standard_format(std::string_view name);

}  // namespace attacca::grammar
