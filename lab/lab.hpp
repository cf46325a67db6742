// lab.hpp: what attacca_lab can be asked for; each prints its table. Both need a GPU.
#pragma once

#include <cstdint>

namespace attacca::lab {

constexpr std::uint32_t kMostRows = 8;

/// A variant of streamed_linear against the library's, with 1 to kMostRows rows of x; see
/// products.cpp.
void compare_products(std::uint32_t rows);

/// How fast TMA is, by where rows land in shared memory; see copies.cpp.
void time_copies();

}  // namespace attacca::lab
