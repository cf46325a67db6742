// input.cpp: reads files and standard input whole, and cuts them into lines.
#include "input.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

namespace attacca::tool {

namespace {

/// In blocks, because a log may have gigabytes.
std::string rest_of(std::istream& file) {
  constexpr std::streamsize kBlock = 1 << 16;
  std::string text;
  char block[kBlock];
  while (file.read(block, kBlock) || file.gcount() > 0)
    text.append(block, static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::string read_text(const std::string& option, const std::string& path) {
  if (path == "-") return rest_of(std::cin);
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    throw BadArgument(
        fmt::format("{} {}: it is a folder; name a file, or - for standard input", option, path));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw BadArgument(fmt::format("{} {}: cannot read it: {}; name a file, or - for standard input",
                                  option, path, std::generic_category().message(errno)));
  return rest_of(file);
}

}  // namespace attacca::tool
