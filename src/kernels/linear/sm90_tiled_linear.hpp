// sm90_tiled_linear.hpp: y = W x as streamed_linear.hpp says, for many rows of x and bf16 weights,
// on GPUs of compute capability 9.0, whose warpgroups multiply whole tiles. Weights are read once
// for every 64 or 128 rows of x. The host body is a plain reference.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/tensor_map.hpp>
#include <cstddef>

#include "kernels/linear/streamed_linear.hpp"
#include "kernels/waits.hpp"

namespace attacca::kernels {

namespace tiled {

constexpr unsigned kStep = 64;       // columns of a stage
constexpr unsigned kPairRows = 256;  // of weights: of a tile, which two blocks share; tall ones
                                     // have twice as many
constexpr unsigned kThreads = 384;
constexpr unsigned kCounterBytes = 64 << 10;  // of the workspace

/// Besides those of a ring.
constexpr unsigned kWaitForShares = kRingWaits;
constexpr const char* kSharesWait =
    "the other blocks of a tile to leave their partial sums (counts of blocks)";

/// What a block that multiplies `kRows` rows of x at a time needs. `kHeight`: 2 of tall tiles.
template <unsigned kRows, unsigned kHeight>
struct Sizes {
  static constexpr unsigned kBoxBytes = kPairRows / 2 * kStep * 2;  // that is copied at a time
  static constexpr unsigned kWeightBytes = kHeight * kBoxBytes;
  static constexpr unsigned kXBytes = kRows * kStep * 2;
  static constexpr unsigned kStageBytes = kWeightBytes + kXBytes;
  static constexpr unsigned kFirstBytes = 1024;                           // barriers and factors
  static constexpr unsigned kEndBytes = kRows / 2 * (kPairRows / 2) * 4;  // half of a block's sums
  static constexpr unsigned kStages = (227 * 1024 - kFirstBytes - kEndBytes) / kStageBytes;
  static constexpr unsigned kSharedBytes = kFirstBytes + kStages * kStageBytes + kEndBytes;
};

}  // namespace tiled

/// REQUIRES: no gather, bf16 weights, all vectors at multiples of 16 bytes.
struct TiledLinearArgs {
  const TensorMap* w_map;  // of the weights; a gate's and its partner's take turns in it
  const TensorMap* x_map;  // of x; see map_rows
  void* workspace;         // tiled_workspace_bytes, zeros at first
  bool gate_is_second;     // in w_map, of a gate
  StreamedLinearArgs product;
  /// Of a block that waits for the partial sums of others.
  std::uint64_t patience_nanoseconds = kPatienceNanoseconds;

  ATTACCA_HD std::uint32_t weight_rows() const {
    return product.epilogue == Epilogue::gate ? 2 * product.w.rows : product.w.rows;
  }
  ATTACCA_HD std::uint32_t weight_tiles() const {
    return (weight_rows() + tiled::kPairRows - 1) / tiled::kPairRows;
  }
  /// Groups of eight rows, of one matrix, in a block's half of a tile.
  ATTACCA_HD std::uint32_t block_octets() const {
    return tiled::kPairRows / 2 / (product.epilogue == Epilogue::gate ? 16 : 8);
  }
};

/// Whether the device can run it.
bool has_tiled_linear(const Device& device);

/// Rows of x that are multiplied at a time, where there may be so many.
constexpr std::uint32_t tiled_rows(std::uint32_t capacity) { return capacity <= 64 ? 64 : 128; }

/// Maps of weights, of a gate and its partner, whose rows take turns by eights, and of
/// [rows, columns] of x for steps of `capacity` rows.
TensorMap map_weights(const Device& device, const Matrix& w);
TensorMap map_weights(const Device& device, const Matrix& gate, const Matrix& up);
TensorMap map_rows(const Device& device, const void* x, std::uint32_t rows, std::uint32_t columns,
                   std::uint32_t capacity);

/// The memory in which blocks meet, on a device with so many SMs.
constexpr std::size_t tiled_workspace_bytes(unsigned processors) {
  return tiled::kCounterBytes + std::size_t{2} * processors * (tiled::kPairRows / 2) * 128 * 4;
}

/// The kernel for these arguments, and its grid, on a device with so many SMs.
const Kernel<TiledLinearArgs>& tiled_linear(const TiledLinearArgs& args, unsigned processors);
Grid tiled_grid(const TiledLinearArgs& args, unsigned processors);

}  // namespace attacca::kernels
