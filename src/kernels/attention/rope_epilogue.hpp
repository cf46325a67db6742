// rope_epilogue.hpp: RoPE and the write to the pages as the epilogue of the product of queries,
// keys and values, for steps of many rows on CUDA (sm90_tiled_linear.hpp). Queries and keys have
// the bits that rope_store.hpp gives them.
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
  Angle* angles = nullptr;                  // [capacity, head_size / 2]
  std::uint32_t* cells = nullptr;           // [capacity]: PagedKv::offset of head 0 / head_size
  std::uint32_t* is_in_long_run = nullptr;  // [capacity]: 0 or 1
};

/// Queries go to the product's y, [capacity, heads * head_size]. REQUIRES: no norms of queries and
/// keys; heads of 64 or 128 elements that all rotate; keys and values in bf16 or f16.
struct RopeEpilogue {
  RotatedRows rows = {};  // null: no such epilogue
  RotaryPairs pairs = RotaryPairs::halves;
  std::uint32_t heads = 0;
  PagedKv kv = {};
  /// Queries of long runs are as MixedAttentionArgs::has_rounded_queries says.
  bool rounds_queries = false;
  float query_factor = 0;  // scale * log2(e), for those
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
