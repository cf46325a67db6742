// free_memory.cpp: reads /proc/meminfo and the limits of the process's control group.
#include "core/free_memory.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace attacca::core {

namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

/// MemAvailable of /proc/meminfo, in bytes.
std::uint64_t available() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kibi = 0; file >> name >> kibi && std::getline(file, unit);)
    if (name == "MemAvailable:") return kibi * 1024;
  return kUnknown;
}

/// A number in a file; kUnknown where there is none, or "max".
std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kUnknown;
}

/// The memory that a container's limit leaves.
std::uint64_t left_in_group() {
  const std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
  const std::uint64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  return limit > used ? limit - used : 0;
}

}  // namespace

std::size_t free_memory() {
  const std::uint64_t bytes = std::min(available(), left_in_group());
  return bytes == kUnknown ? 0 : static_cast<std::size_t>(bytes);
}

}  // namespace attacca::core
