// version.hpp: the version of the library; CMakeLists.txt holds the same number.
#pragma once

namespace attacca {

constexpr const char* version() { return "0.1.0"; }

}  // namespace attacca
