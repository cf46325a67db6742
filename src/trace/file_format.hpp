// file_format.hpp: the format that the ending of a file's name asks for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace attacca::trace {

enum class FileFormat : std::uint8_t { json, perfetto, page };

/// No ending asks for JSON. Nothing for an ending that no format has; write_trace writes JSON then.
std::optional<FileFormat> format_of(const std::filesystem::path& path);

}  // namespace attacca::trace
