// string_formats.hpp: the formats of strings that JSON schemas name, as regular expressions.
#pragma once

#include <string>
#include <string_view>

namespace attacca::grammar {

/// For a whole string. Null if the format is not supported.
const std::string* format_pattern(std::string_view name);

/// Whether the standard defines the format. Formats it does not define are annotations.
bool is_standard_format(std::string_view name);

}  // namespace attacca::grammar
