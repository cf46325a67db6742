// lab.hpp: the commands of attacca_lab. Each prints its table and needs a GPU.
#pragma once

#include <cstdint>

namespace attacca::lab {

constexpr std::uint32_t kMaxRows = 8;
constexpr std::uint32_t kMaxTiledRows = 8192;

/// Compares a variant of streamed_linear with the library's, for 1 to kMaxRows rows of x; see
/// products.cpp.
void compare_products(std::uint32_t rows);

/// Compares the forms of tiled_linear with each other and with cuBLASLt, for 1 to kMaxTiledRows
/// rows of x; see tiles.cpp.
void compare_tiles(std::uint32_t rows);

/// Prints how long the blocks of a persistent step wait and work, for a shape and 1 to 16 rows; see
/// phases.cpp.
void time_phases(const char* shape, std::uint32_t rows);

/// Measures the speed of TMA by where rows land in shared memory; see copies.cpp.
void time_copies();

}  // namespace attacca::lab
