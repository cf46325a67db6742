// input.hpp: texts that commands read.
#pragma once

#include <string>

namespace attacca::tool {

/// All of a file, or of standard input where `path` is "-". Throws BadArgument that names the
/// option.
std::string read_text(const std::string& option, const std::string& path);

}  // namespace attacca::tool
