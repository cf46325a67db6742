// cache.cpp: finds models in the cache folder.
#include "model/cache.hpp"

#include <attacca/error.hpp>

#include "core/cache_folder.hpp"

namespace attacca::model {

std::filesystem::path model_cache() {
  const std::filesystem::path folder = core::cache_folder();
  if (folder.empty())
    throw Error("no folder for fetched models: set HOME or XDG_CACHE_HOME to an absolute path");
  return folder / "models";
}

std::filesystem::path cache_path(const std::string& name) {
  return model_cache() / (name + ".gguf");
}

std::optional<std::filesystem::path> cached_model(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || core::cache_folder().empty())
    return {};
  std::filesystem::path path = cache_path(name);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  return path;
}

}  // namespace attacca::model
