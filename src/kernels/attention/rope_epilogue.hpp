// rope_epilogue.hpp: RoPE and the write to the pages as the epilogue of the product of queries,
// keys and values, for steps of many rows on CUDA (sm90_tiled_linear.hpp). Keys have the bits that
// rope_store.hpp gives them. Queries go to attention multiplied and rounded, as its matrix units
// take them.
#pragma once

#include <attacca/device.hpp>
#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/attention/paged_kv.hpp"
#include "kernels/attention/rope_store.hpp"

namespace attacca::kernels {

struct Angle {
  float cosine;
  float sine;
};

/// What the epilogues of all layers take of each row.
struct RotatedRows {
  Angle* angles = nullptr;               // [capacity, head_size / 2]
  std::uint32_t* cells = nullptr;        // [capacity]: PagedKv::offset of head 0 / head_size
  std::uint32_t* needs_rests = nullptr;  // [capacity]: 1 for rows in no long run, else 0
};

/// Queries as matrix units multiply them: times scale * log2(e), rounded to the type of keys and
/// values. [capacity, heads * head_size]
struct ScaledQueries {
  std::uint16_t* values = nullptr;  // null: there are none
  std::uint16_t* rests = nullptr;   // their rounding errors; of rows outside long runs
};

/// REQUIRES: no norms of queries and keys; heads of 64 or 128 elements that all rotate; keys and
/// values in bf16 or f16.
struct RopeEpilogue {
  RotatedRows rows = {};  // null: no such epilogue
  RotaryPairs pairs = RotaryPairs::halves;
  std::uint32_t heads = 0;
  float query_factor = 0;  // scale * log2(e)
  PagedKv kv = {};
  ScaledQueries q = {};

  /// Two outputs that rotate together, and their index among the pairs of the head. Tensor cores
  /// leave both to one lane if octets of first and of second ones alternate in the weights.
  struct Pair {
    std::uint32_t first;
    std::uint32_t second;
    std::uint32_t index;
  };
  /// The pair of a lane. `weight_block` counts 64 outputs; a warp, one of four, has 16 of them.
  ATTACCA_HD constexpr Pair pair_of(std::uint32_t weight_block, unsigned warp,
                                    unsigned lane) const {
    const std::uint32_t part = kv.head_size == 128 ? weight_block % 2 : 0;
    const std::uint32_t head = (weight_block - part) * 64;  // its first output
    const std::uint32_t index = 32 * part + 8 * warp + lane / 4;
    if (pairs == RotaryPairs::adjacent) return {head + 2 * index, head + 2 * index + 1, index};
    return {head + index, head + index + kv.head_size / 2, index};
  }
};

/// Finds the rows once a step, as they are the same in every layer.
struct RopeRowsArgs {
  RowCount rows;
  const std::int32_t* positions;  // [capacity]
  const std::int32_t* slots;      // [capacity]
  const float* frequencies;       // [head_size / 2]: angle = position * frequency
  PagedKv kv;                     // of any layer
  RotatedRows to;
};

const Kernel<RopeRowsArgs>& rope_rows();
Grid grid_of(const RopeRowsArgs& args, bool is_cuda);

}  // namespace attacca::kernels
