// sm90_tiled_linear.hpp: y = W x with the epilogues of streamed_linear.hpp, for many rows of x and
// bf16 or e4m3 weights, or f16 weights with x in f16 (half_rows.hpp). It is a GEMM for compute
// capability 9.0 with wgmma, split-K where whole tiles would leave SMs idle. Weights are read once
// for every 64, 128 or 256 rows of x. A row's bits may depend on the batch, unless the caller wants
// it summed up in order: then it has the bits of streamed_linear.hpp. The host body is a plain
// reference.
#pragma once

#include <attacca/kernel.hpp>
#include <attacca/tensor_map.hpp>
#include <cstddef>

#include "kernels/attention/rope_epilogue.hpp"
#include "kernels/linear/streamed_linear.hpp"
#include "kernels/waits.hpp"

namespace attacca::kernels {

namespace tiled {

constexpr unsigned kStep = 64;       // columns of a stage (tile K)
constexpr unsigned kPairRows = 256;  // weight rows of a pair's tile; twice as many in a tall tile
constexpr unsigned kThreads = 384;
constexpr unsigned kCounterBytes = 64 << 10;  // at the start of the workspace
/// Slots for partial sums that a pair of blocks has in the workspace.
ATTACCA_HD constexpr unsigned slots_of_pair(bool in_order) { return in_order ? 8 : 2; }

/// A wait besides those of a ring.
constexpr unsigned kWaitForPartials = kRingWaits;
constexpr const char* kPartialsWait =
    "the other blocks of a tile to leave their partial sums (counts of blocks)";

/// Shared memory of a block that multiplies `kRows` rows of x at a time. `kHeight` is 2 for tall
/// tiles.
template <unsigned kRows, unsigned kHeight, TensorType kType>
struct Sizes {
  static constexpr unsigned kBoxBytes =
      kPairRows / 2 * kStep * block_shape(kType).bytes;  // of one TMA copy
  static constexpr unsigned kWeightBytes = kHeight * kBoxBytes;
  static constexpr unsigned kXBytes = kRows * kStep * 2;
  static constexpr unsigned kStageBytes = kWeightBytes + kXBytes;
  static constexpr unsigned kHeaderBytes = kRows <= 128 ? 1024 : 2048;  // barriers and factors
  static constexpr unsigned kPassRows = kRows <= 128 ? kRows / 2 : 64;  // of an epilogue pass
  static constexpr unsigned kEpilogueBytes = kPassRows * (kPairRows / 2) * 4;
  static constexpr unsigned kStages = (227 * 1024 - kHeaderBytes - kEpilogueBytes) / kStageBytes;
  static constexpr unsigned kSharedBytes = kHeaderBytes + kStages * kStageBytes + kEpilogueBytes;
};

}  // namespace tiled

/// REQUIRES: no gather; bf16 or, not in order, e4m3 or f16 weights; all vectors at multiples of 16
/// bytes.
struct TiledLinearArgs {
  const TensorMap* w_map;   // of the weights; rows of a gate and its partner alternate in it
  const TensorMap* x_map;   // of x; see map_rows
  void* workspace;          // of tiled_workspace_bytes; zeros before the first launch
  bool gate_is_second;      // whether `up` comes first in w_map
  bool in_order;            // whether a row has the bits of streamed_linear
  std::uint32_t tile_rows;  // rows of x of a tile: 64, 128 or, not in order, 256
  StreamedLinearArgs product;
  /// How long a block waits for the partial sums of others.
  std::uint64_t patience_nanoseconds = kPatienceNanoseconds;
  /// Rotates queries and keys, and stores keys and values in their pages. REQUIRES: the product of
  /// these; not in order; CUDA.
  RopeEpilogue rope = {};

  ATTACCA_HD std::uint32_t weight_rows() const {
    return product.epilogue == Epilogue::gate ? 2 * product.w.rows : product.w.rows;
  }
  ATTACCA_HD std::uint32_t weight_tiles() const {
    return (weight_rows() + tiled::kPairRows - 1) / tiled::kPairRows;
  }
  bool rotates() const { return rope.rows.angles; }
  /// Octets (groups of eight rows) of one matrix in a block's half of a tile.
  ATTACCA_HD std::uint32_t block_octets() const {
    return tiled::kPairRows / 2 / (product.epilogue == Epilogue::gate ? 16 : 8);
  }
};

bool has_tiled_linear(const Device& device);
/// Whether the kernels read weights of this type. Others must become bf16 first.
constexpr bool has_tiled_type(TensorType type, bool in_order) {
  return type == TensorType::bf16 ||
         (!in_order && (type == TensorType::e4m3 || type == TensorType::f16));
}

/// The rows of x that a tile may have, and how many a product is fastest with on a device with
/// `processors` SMs.
inline constexpr std::uint32_t kTileRows[] = {64, 128, 256};
std::uint32_t tiled_rows(const StreamedLinearArgs& product, bool in_order, unsigned processors);

/// Tensor maps of weights, of a gate and its partner whose octets of rows alternate, and of [rows,
/// columns] of x for tiles of `tile_rows` rows of x.
TensorMap map_weights(const Device& device, const Matrix& w);
TensorMap map_weights(const Device& device, const Matrix& gate, const Matrix& up);
TensorMap map_rows(const Device& device, const void* x, std::uint32_t rows, std::uint32_t columns,
                   std::uint32_t tile_rows);

/// Bytes of the counters and partial sums of split tiles, on a device with `processors` SMs.
constexpr std::size_t tiled_workspace_bytes(unsigned processors, bool in_order) {
  return tiled::kCounterBytes + std::size_t{tiled::slots_of_pair(in_order)} * processors *
                                    (tiled::kPairRows / 2) * (in_order ? 128 : 256) * 4;
}

/// The kernel and the grid for these arguments on a device with `processors` SMs.
const Kernel<TiledLinearArgs>& tiled_linear(const TiledLinearArgs& args, unsigned processors);
Grid tiled_grid(const TiledLinearArgs& args, unsigned processors);

}  // namespace attacca::kernels
