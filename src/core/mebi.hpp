// mebi.hpp: bytes as messages say them.
#pragma once

#include <cstddef>

namespace attacca {

/// In MiB.
inline double mebi(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace attacca
