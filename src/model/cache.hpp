// cache.hpp: the folder that keeps downloaded models. It downloads nothing itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace attacca::model {

/// attacca/models in $XDG_CACHE_HOME, or in ~/.cache; it need not exist. Throws Error if neither
/// XDG_CACHE_HOME nor HOME is set.
std::filesystem::path model_cache();

/// The path of a model in the cache, whether it is there or not: model_cache() / "smollm2.gguf".
std::filesystem::path cache_path(const std::string& name);

/// The path of a model that is in the cache. A name with a slash is never in it.
std::optional<std::filesystem::path> cached_model(const std::string& name);

}  // namespace attacca::model
