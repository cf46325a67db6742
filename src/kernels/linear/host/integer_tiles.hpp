// integer_tiles.hpp: quantized weights times rows in the format i16. For each weight row and row of
// x, the products of a group of columns that share a scale are summed in exact integers. The groups
// are then added in floats, in order:
//
//   sum = fma(products, weight scale * x scale, sum)
//   sum = fma(weight offset, sum of x, sum)           where the type has offsets
//
// Columns may be cut into sections, whose sums are added in pairs: (0 + 1) + (2 + 3); see
// LinearArgs. So a result is the same bits on every path, whatever else is in the batch. Float
// weights are left to float_tiles.hpp.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/activations.hpp"
#include "kernels/matrix.hpp"

namespace attacca::kernels::host {

inline constexpr unsigned kTileOutputs = 32;

/// Up to 32 rows of weights times some rows of x.
struct IntegerTile {
  Matrix w;
  std::uint32_t first;  // row of w
  std::uint32_t rows;   // at most kTileOutputs
  const void* x;        // prepared if the path does that
  std::uint32_t count;
  std::byte* panel;  // scratch of panel_bytes(w.columns), aligned to 64
  float* out;        // [count, kTileOutputs]; with `adds`, what section 0 is added to
  std::uint32_t sections = 1;
  bool adds = false;
};

inline constexpr std::size_t kPreparedBytes = 80;

/// An implementation for a kind of processor.
struct IntegerPath {
  const char* name;
  /// Converts blocks of x to this path's layout, kPreparedBytes each, aligned to 16. Null if the
  /// path reads them as they are.
  void (*prepare)(const RowBlock* x, std::size_t count, std::byte* y);
  void (*multiply)(const IntegerTile& tile);
};

/// Scratch for unpacked rows of weights with their scales: 16 as bytes, 8 as 16-bit integers, or
/// four as floats.
constexpr std::size_t panel_bytes(std::uint32_t columns) { return std::size_t{22} * columns; }

/// The paths that this processor has, the fastest first. The last one runs on any processor.
const std::vector<const IntegerPath*>& integer_paths();
/// The fastest path on this processor.
inline const IntegerPath& best_path() { return *integer_paths().front(); }

/// On ARM processors with byte dot products, null elsewhere.
const IntegerPath* dotprod_path();
/// On x86-64 processors with byte dot products of 512 bits, null elsewhere.
const IntegerPath* vnni_path();
/// On x86-64 processors with byte dot products of 256 bits, null elsewhere.
const IntegerPath* avx_vnni_path();
/// On x86-64 processors with AVX2, null elsewhere.
const IntegerPath* avx2_path();

}  // namespace attacca::kernels::host
