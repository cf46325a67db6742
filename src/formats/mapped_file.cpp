// mapped_file.cpp: opens a file, maps it and closes it. The mapping outlives the descriptor.
#include "formats/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace attacca::formats {

namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int error) {
  throw DeviceError(fmt::format("cannot {} '{}': {}", what, path.string(),
                                std::generic_category().message(error)));
}

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int number = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) fail("open", path_, errno);
  const Descriptor descriptor{number};
  struct stat status {};
  if (::fstat(descriptor.number, &status) != 0) fail("look at", path_, errno);
  if (S_ISDIR(status.st_mode)) fail("map", path_, EISDIR);
  if (!S_ISREG(status.st_mode)) fail("map", path_, ENODEV);
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // nothing to map
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (address == MAP_FAILED) fail("map", path_, errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void read_soon(std::span<const std::byte> bytes) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t start = first - first % page;
  ::posix_madvise(reinterpret_cast<void*>(start), first + bytes.size() - start,
                  POSIX_MADV_WILLNEED);
}

}  // namespace attacca::formats
