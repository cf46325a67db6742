// decode_attention.hpp: attention for decode steps, in which every row is the newest token of its
// own sequence. One kernel applies the query and key norms where the architecture has them, applies
// RoPE, stores the new key and value in their page, and attends over all positions that the token
// sees, itself included. Steps with prompts are left to mixed_attention.hpp.
//
// On CUDA the grid is the same whatever the lengths are: its blocks pull tiles from a counter. A
// tile is one split of a row's positions (split-K) for some of its heads. How a row is split
// depends on its own length and on how many rows the step may have (see splits_of), and splits are
// combined in order. So a row's result is the same bits whatever the other rows are, and with any
// page size. With kv.has_fixed_splits() other kernels split every row at the same positions: the
// same bits in a step of any size, and in prompts. f32 is split by its length only.
#pragma once

#include <attacca/kernel.hpp>
#include <cstddef>

#include "kernels/activations.hpp"
#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/paged_kv.hpp"
#include "kernels/attention/rope_store.hpp"

namespace attacca::kernels {

struct DecodeAttentionArgs {
  const float*
      qkv;  // [capacity, (heads + 2 * kv_heads) * head_size]: queries, keys, values before RoPE
  RowCount rows;
  const std::int32_t* positions;  // [capacity]
  const std::int32_t* slots;      // the row's block table; all different
  std::uint32_t slot_count;       // slots are below it, so no step has more rows
  const float* frequencies;       // [rotary_size / 2]: angle = position * frequency
  const float* query_norm;        // [head_size], or null
  const float* key_norm;          // [head_size], or null
  float epsilon;
  RotaryPairs pairs;
  std::uint32_t rotary_size;  // the first elements of a head, which rotate
  std::uint32_t heads;  // a multiple of kv.kv_heads; head h reads kv head h / (heads / kv_heads)
  float scale;
  std::uint32_t window;  // positions that a row sees, itself included; 0: all
  PagedKv kv;
  /// CUDA: `attention_workspace_bytes` for `slot_count` rows and this device, zeroed before the
  /// first launch. Each launch leaves it ready for the next one, whatever its capacity. One launch
  /// at a time may use it.
  void* workspace;
  std::uint16_t* y;  // [capacity, heads * head_size] bf16
  /// The caller promises that the count, positions, slots, block tables and the keys and values of
  /// earlier positions were written before the first kernel of this chain of programmatic edges
  /// began. The kernel then reads them while its producers still run; only qkv has to wait.
  bool reads_ahead;
  std::uint16_t* y_rest = nullptr;  // as y: its rounding error in bf16; or null
};

/// The kernel for this head size and type of keys and values, and its grid on a device with
/// `processors` SMs. Both throw BadArgument for unsupported shapes.
const Kernel<DecodeAttentionArgs>& decode_attention(const DecodeAttentionArgs& args);
Grid grid_of(const DecodeAttentionArgs& args, bool is_cuda, unsigned processors);

/// One block's rows, on the host.
void decode_attention_on_host(Thread& t, const DecodeAttentionArgs& args);

}  // namespace attacca::kernels
