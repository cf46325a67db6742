// sm90_same_bits_linear.hpp: y = W x to the same bits as streamed_linear.hpp, for many rows of x
// and bf16 weights, which stream once for every 64 rows. It needs TMA tensor maps and clusters, so
// compute capability 9.0. The host body is a plain reference. sm90_tiled_linear.hpp is faster where
// the bits may differ.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/tensor_map.hpp>

#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels {

namespace same_bits {

constexpr unsigned kRows = 64;      // of x at a time
constexpr unsigned kColumns = 256;  // of a stage
constexpr unsigned kTileRows = 8;   // of weights
constexpr unsigned kTiles = 8;      // that share one read of x
constexpr unsigned kStages = 3;
constexpr unsigned kConsumerWarps = 8;
constexpr unsigned kNormWarps = 3;                                     // that find the norm factors
constexpr unsigned kThreads = 32 * (kConsumerWarps + 1 + kNormWarps);  // and one producer warp

constexpr unsigned kTileBytes = kTileRows * kColumns * 2;
constexpr unsigned kXBytes = kRows * kColumns * 2;
constexpr unsigned kStageBytes = kXBytes + kTiles * kTileBytes;
constexpr unsigned kPartialFloats =
    kConsumerWarps * 32 * 16;            // the warps' partial sums of 32 rows and 16 outputs
constexpr unsigned kHeaderBytes = 1024;  // mbarriers and norm factors
constexpr unsigned kSharedBytes = kHeaderBytes + kStages * kStageBytes + 2 * kPartialFloats * 4;

}  // namespace same_bits

/// REQUIRES: no gather, bf16 weights of 64n columns, all vectors at multiples of 16 bytes.
struct SameBitsLinearArgs {
  const TensorMap* w_map;  // of the weights; rows of a gate and its partner alternate in it
  const TensorMap* x_map;
  bool gate_is_second;  // whether `up` comes first in w_map
  StreamedLinearArgs product;
};

/// Whether the device can run it. Two neighbouring blocks share x, so `processors` must be even.
bool has_same_bits_linear(const Device& device, unsigned processors);

/// Tensor maps of weights, of a gate and its partner whose rows alternate by fours, and of [rows,
/// columns] of x.
TensorMap map_tiles(const Device& device, const Matrix& w);
TensorMap map_tiles(const Device& device, const Matrix& gate, const Matrix& up);
TensorMap map_same_bits_rows(const Device& device, const void* x, std::uint32_t rows,
                             std::uint32_t columns);

const Kernel<SameBitsLinearArgs>& same_bits_linear();
/// The grid on a device with `processors` SMs: as many blocks as streamed_grid.
Grid same_bits_grid(unsigned processors);

}  // namespace attacca::kernels
