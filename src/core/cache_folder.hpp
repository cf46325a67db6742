// cache_folder.hpp: the folder for what attacca keeps between runs: fetched models, measured roofs.
#pragma once

#include <filesystem>

namespace attacca::core {

/// attacca in $XDG_CACHE_HOME, or in ~/.cache; it need not exist. Empty if neither XDG_CACHE_HOME
/// nor HOME is an absolute path.
std::filesystem::path cache_folder();

}  // namespace attacca::core
