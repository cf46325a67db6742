// files.hpp: the files that commands write their results to, and how many may be open.
#pragma once

#include <filesystem>
#include <string>

namespace attacca::tool {

/// Throws Error where that fails.
void write_file(const std::filesystem::path& path, const std::string& text);

/// Throws Error if the file cannot be written. A benchmark may take minutes, so this is found out
/// before it starts.
void require_writable(const std::filesystem::path& path);

/// Lets the process open as many files as the system allows. Each connection is one, and the
/// default limit is often 1024.
void allow_many_files();

}  // namespace attacca::tool
