// integer_tiles.hpp: quantized weights times rows in the format i16. For each weight row and each
// row of x, in exact integers the products of each group of columns that shares a scale, and in
// floats, group after group:
//
//   sum = fma(products, weight scale * x scale, sum)
//   sum = fma(weight offset, sum of x, sum)           where the type has offsets
//
// So a result is the same bits on every path, whatever stands beside it.
#pragma once

#include <cstddef>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"

namespace attacca::kernels::host {

inline constexpr unsigned kTileOutputs = 32;

/// Up to 32 rows of weights times some rows of x.
struct IntegerTile {
  Matrix w;
  std::uint32_t first;  // row of w
  std::uint32_t rows;   // at most kTileOutputs
  const void* x;        // [count, w.columns / 32] blocks, prepared where the path does that
  std::uint32_t count;
  std::byte* panel;  // scratch of panel_bytes(w.columns), aligned to 64
  float* out;        // [count, kTileOutputs]
};

inline constexpr std::size_t kPreparedBytes = 80;

/// One way to do it, for a kind of processor.
struct IntegerPath {
  const char* name;
  /// Puts blocks of x as this path wants them, kPreparedBytes for each, aligned to 16; null where
  /// it takes them as they are.
  void (*prepare)(const RowBlock* x, std::size_t count, std::byte* y);
  void (*multiply)(const IntegerTile& tile);
};

/// For four rows of weights unpacked.
constexpr std::size_t panel_bytes(std::uint32_t columns) { return std::size_t{16} * columns; }

/// Any processor, with Highway.
const IntegerPath& portable_path();
/// ARM processors with byte dot products; null elsewhere.
const IntegerPath* dotprod_path();
/// The fastest here.
const IntegerPath& best_path();

}  // namespace attacca::kernels::host
