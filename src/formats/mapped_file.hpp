// mapped_file.hpp: a file's bytes, mapped read-only. The system reads a page on its first access.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace attacca::formats {

/// Owns the mapping; a move keeps the addresses. REQUIRES: nobody shortens the file meanwhile. If
/// they do, the operating system ends the process at the first access to a missing page.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws DeviceError with the path and the system's reason.
  explicit MappedFile(std::filesystem::path path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// Asks the system to read these bytes soon, and does not wait. Bytes that are no file's are left
/// alone.
void read_soon(std::span<const std::byte> bytes);

}  // namespace attacca::formats
