// cache.cpp: finds the cache folder by the XDG rules, and models in it.
#include "model/cache.hpp"

#include <attacca/error.hpp>
#include <cstdlib>

namespace attacca::model {
namespace {

/// The folder that a variable names. The XDG specification says to ignore relative ones.
std::filesystem::path folder_in(const char* variable) {
  const char* value = std::getenv(variable);
  std::filesystem::path folder = value ? value : "";
  return folder.is_absolute() ? folder : std::filesystem::path();
}

std::filesystem::path cache_folder() {
  if (const auto folder = folder_in("XDG_CACHE_HOME"); !folder.empty()) return folder;
  if (const auto home = folder_in("HOME"); !home.empty()) return home / ".cache";
  return {};
}

}  // namespace

std::filesystem::path model_cache() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty())
    throw Error("no folder for fetched models: set HOME or XDG_CACHE_HOME to an absolute path");
  return folder / "attacca" / "models";
}

std::filesystem::path cache_path(const std::string& name) {
  return model_cache() / (name + ".gguf");
}

std::optional<std::filesystem::path> cached_model(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || cache_folder().empty()) return {};
  std::filesystem::path path = cache_path(name);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  return path;
}

}  // namespace attacca::model
