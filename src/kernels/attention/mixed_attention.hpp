// mixed_attention.hpp: attention for steps that mix prefill and decode, on CUDA with bf16 results.
// Queries have had RoPE, and keys and values are already in their pages. Rows of one slot are
// neighbours with consecutive positions. Pure decode steps are left to decode_attention.hpp.
//
// The grid is the same whatever the step holds: blocks plan the tiles themselves and pull them from
// a counter. A row that is alone in its slot has the same bits as in decode_attention with 3 to 16
// rows (see splits_of). Neighbouring rows of a slot are computed together, and a row's result does
// not depend on how many of them there are. With kv.same_bits it has the same bits alone, beside
// neighbours and in every decode step: other kernels compute rows together over fixed splits, and
// f32 computes each row by itself.
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
  std::uint32_t slot_count;       // all slots are below it
  float scale;
  std::uint32_t window;  // positions that a row sees, itself included; 0: all
  PagedKv kv;
  /// CUDA: `attention_workspace_bytes` for `slot_count` rows and this device, zeroed before the
  /// first launch. Each launch leaves it ready for the next one. One launch at a time may use it.
  void* workspace;
  std::uint16_t* y;                 // [capacity, heads * head_size] bf16
  std::uint16_t* y_rest = nullptr;  // as y: its rounding error in bf16; or null
  /// Rows of long runs are left to sm90_prompt_attention.hpp. REQUIRES: takes_prompts, or the host.
  bool leaves_long_runs = false;
  /// Rows of long runs have other queries at the start of their place in `q`: in 16 bits, times
  /// scale * log2(e), rounded to the type of keys and values. REQUIRES: leaves_long_runs, or
  /// sm90_prompt_attention.hpp, not the same bits.
  bool has_rounded_queries = false;
};

/// The kernel for this head size and type of keys and values, and its grid on a device with
/// `processors` SMs. Both throw BadArgument for unsupported shapes.
const Kernel<MixedAttentionArgs>& mixed_attention(const MixedAttentionArgs& args);
Grid grid_of(const MixedAttentionArgs& args, bool is_cuda, unsigned processors);

/// The cost of all rows. The context is known only when the kernel runs; this assumes that the rows
/// are one prompt that has filled half of its block table, or its window.
Cost mixed_attention_cost(const MixedAttentionArgs& args);
/// Computes one row, as a reference. REQUIRES: keys and values in f32.
void mixed_attention_on_host(const MixedAttentionArgs& args, std::uint32_t row);

}  // namespace attacca::kernels
