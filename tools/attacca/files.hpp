// files.hpp: the files that commands write their results to.
#pragma once

#include <filesystem>
#include <string>

namespace attacca::tool {

/// Throws Error where that fails.
void write_file(const std::filesystem::path& path, const std::string& text);

/// Throws Error if the file cannot be written. A benchmark may take minutes, so this is found out
/// before it starts.
void require_writable(const std::filesystem::path& path);

}  // namespace attacca::tool
