// input.hpp: texts that commands read, and the JSON that they print.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace attacca::tool {

/// All of a file, or of standard input where `path` is "-". Throws BadArgument that names the
/// option.
std::string read_text(const std::string& option, const std::string& path);

/// As text, on one line or indented. Bytes that are no UTF-8 become U+FFFD: a token may be half a
/// character, and a prompt anything.
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace attacca::tool
