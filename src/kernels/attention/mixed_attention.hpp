// mixed_attention.hpp: attention for steps that mix prompts with decode, for CUDA's bf16 steps:
// queries are rotated, keys and values are in their pages. Rows of one slot are neighbours and have
// consecutive positions.
//
// The grid is the same whatever the step holds: blocks pull tiles that they plan themselves. A row
// that is alone in its slot is computed as in decode_attention of 3 to 16 rows, to the same bits
// (see splits_of); neighbours are computed together, and a row's result does not depend on which of
// them are there. Where kv.computes_rows_alone() each row is computed for itself: the same bits
// alone, beside neighbours and in every decode step.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels {

struct MixedAttentionArgs {
  const float* q;  // [capacity, q_stride]: heads * head_size queries lead each row
  std::uint32_t q_stride;
  std::uint32_t heads;  // a multiple of kv.kv_heads; head h reads kv head h / (heads / kv_heads)
  RowCount rows;
  const std::int32_t* positions;  // [capacity]
  const std::int32_t* slots;      // [capacity]
  std::uint32_t slot_count;       // slots are below it
  float scale;
  std::uint32_t window;  // looks at no more than this many positions back, itself included; 0: all
  PagedKv kv;
  /// CUDA: `attention_workspace_bytes` for `slot_count` rows and this device, zeroed before the
  /// first launch; each launch leaves it so that the next one can use it. For one launch at a time.
  void* workspace;
  std::uint16_t* y;                 // [capacity, heads * head_size] bf16
  std::uint16_t* y_rest = nullptr;  // as y: bf16 of what rounding it left; null: not wanted
};

/// The kernel for this head size and type of keys and values, and its grid on a device with that
/// many processors. Throws BadArgument for shapes it does not know.
const Kernel<MixedAttentionArgs>& mixed_attention(const MixedAttentionArgs& args);
Grid grid_of(const MixedAttentionArgs& args, bool is_cuda, unsigned processors);

}  // namespace attacca::kernels
