// sm90_same_bits_linear.hpp: y = W x as streamed_linear.hpp says, to the same bits, for many rows
// of x and bf16 weights: they stream once for every 64 rows. On GPUs of compute capability 9.0,
// whose TMA brings boxes of a matrix. The host body is a plain reference.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/tensor_map.hpp>

#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels {

namespace same_bits {

constexpr unsigned kRows = 64;      // of x, at a time
constexpr unsigned kColumns = 256;  // of a stage
constexpr unsigned kTileRows = 8;   // of weights
constexpr unsigned kTiles = 8;      // for which x is read once
constexpr unsigned kStages = 3;
constexpr unsigned kWarps = 8;    // that multiply
constexpr unsigned kFinders = 3;  // that find what a norm multiplies rows by
constexpr unsigned kThreads = 32 * (kWarps + 1 + kFinders);  // and one for copies

constexpr unsigned kTileBytes = kTileRows * kColumns * 2;
constexpr unsigned kXBytes = kRows * kColumns * 2;
constexpr unsigned kStageBytes = kXBytes + kTiles * kTileBytes;
constexpr unsigned kPartFloats = kWarps * 32 * 16;  // warps' sums of 32 rows and 16 outputs
constexpr unsigned kFirstBytes = 1024;              // barriers and factors
constexpr unsigned kSharedBytes = kFirstBytes + kStages * kStageBytes + 2 * kPartFloats * 4;

}  // namespace same_bits

/// REQUIRES: no gather, bf16 weights of 64n columns, all vectors at multiples of 16 bytes.
struct SameBitsLinearArgs {
  const TensorMap* w_map;  // of the weights; a gate's and its partner's take turns in it
  const TensorMap* x_map;
  bool gate_is_second;  // in w_map, of a gate
  StreamedLinearArgs product;
};

/// Whether a device with so many SMs can run it. Two neighbours share x.
bool has_same_bits_linear(const Device& device, unsigned processors);

/// Maps of weights, of a gate and its partner, whose rows take turns by fours, and of
/// [rows, columns] of x.
TensorMap map_tiles(const Device& device, const Matrix& w);
TensorMap map_tiles(const Device& device, const Matrix& gate, const Matrix& up);
TensorMap map_same_bits_rows(const Device& device, const void* x, std::uint32_t rows,
                             std::uint32_t columns);

const Kernel<SameBitsLinearArgs>& same_bits_linear();
/// The grid on a device with so many SMs: streamed_grid's blocks.
Grid same_bits_grid(unsigned processors);

}  // namespace attacca::kernels
