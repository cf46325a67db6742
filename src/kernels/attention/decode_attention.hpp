// decode_attention.hpp: attention for steps in which every row is the newest token of a sequence of
// its own. One kernel normalizes where the architecture does, rotates, stores the new key and value
// in their page, and attends over all that the token sees, itself included.
//
// On CUDA the grid is the same whatever the lengths: its blocks pull tiles, a row's split for some
// of its heads each. How a row is split depends on its own length and on how many rows the step may
// have (see splits_of), and splits are combined in order: a row's result is the same bits whatever
// the other rows are, and with any page size. Where kv.computes_rows_alone() it depends on the
// length only: the same bits in a step of any size.
#pragma once

#include <attacca/kernel.hpp>
#include <cstddef>

#include "kernels/activations.hpp"
#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/paged_kv.hpp"
#include "kernels/attention/rope_store.hpp"

namespace attacca::kernels {

struct DecodeAttentionArgs {
  const float* qkv;  // [capacity, (heads + 2 * kv_heads) * head_size]: as the product left them
  RowCount rows;
  const std::int32_t* positions;  // [capacity]
  const std::int32_t* slots;      // [capacity]: whose block table; no two rows have the same
  std::uint32_t slot_count;       // slots are below it, and so no step has more rows
  const float* frequencies;       // [rotary_size / 2]: angle = position * frequency
  const float* query_norm;        // [head_size], or null
  const float* key_norm;          // [head_size], or null
  float epsilon;
  RotaryPairs pairs;
  std::uint32_t rotary_size;  // elements of a head that rotate, the first ones
  std::uint32_t heads;  // a multiple of kv.kv_heads; head h reads kv head h / (heads / kv_heads)
  float scale;
  std::uint32_t window;  // looks at no more than this many positions back, itself included; 0: all
  PagedKv kv;
  /// CUDA: `attention_workspace_bytes` for `slot_count` rows and this device, zeroed before the
  /// first launch; each launch leaves it so that the next one can use it, whatever its capacity.
  /// For one launch at a time.
  void* workspace;
  std::uint16_t* y;  // [capacity, heads * head_size] bf16
  /// Promises that the count, positions, slots, block tables and the keys and values of earlier
  /// positions were written before the first kernel of our chain of programmatic edges began. Then
  /// they are read while the producers still run; only qkv has to wait for them.
  bool reads_ahead;
  std::uint16_t* y_rest = nullptr;  // as y: bf16 of what rounding it left; null: not wanted
};

/// The kernel for this head size and type of keys and values, and its grid on a device with that
/// many processors. Throws BadArgument for shapes it does not know.
const Kernel<DecodeAttentionArgs>& decode_attention(const DecodeAttentionArgs& args);
Grid grid_of(const DecodeAttentionArgs& args, bool is_cuda, unsigned processors);

}  // namespace attacca::kernels
