// cache.hpp: where models that were fetched are kept.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace attacca::model {

/// attacca/models in $XDG_CACHE_HOME, or in ~/.cache; it need not exist. Throws Error where neither
/// variable says where that is.
std::filesystem::path model_cache();

/// Where a model of this name is, or will be: model_cache() / "smollm2.gguf".
std::filesystem::path cache_path(const std::string& name);

/// The file of this name in the cache, if it is there. A name with a slash is never in it.
std::optional<std::filesystem::path> cached_model(const std::string& name);

}  // namespace attacca::model
