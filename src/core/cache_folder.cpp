// cache_folder.cpp: finds the cache folder by the XDG rules.
#include "core/cache_folder.hpp"

#include <cstdlib>

namespace attacca::core {

namespace {

/// The folder that a variable names. The XDG specification says to ignore relative ones.
std::filesystem::path folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  std::filesystem::path folder = value ? value : "";
  return folder.is_absolute() ? folder : std::filesystem::path();
}

}  // namespace

std::filesystem::path cache_folder() {
  if (const auto folder = folder_in("XDG_CACHE_HOME"); !folder.empty()) return folder / "attacca";
  if (const auto home = folder_in("HOME"); !home.empty()) return home / ".cache" / "attacca";
  return {};
}

}  // namespace attacca::core
