// attention.hpp: causal attention over paged keys and values for steps that mix prefill and decode,
// in f32 on the host and on any CUDA device. Each token attends to positions 0 to its own in its
// slot's pages. A token's result is the same bits whatever the page size and the rest of the batch.
// The fast CUDA kernels are decode_attention.hpp and mixed_attention.hpp.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels {

struct AttentionArgs {
  const float* q;  // [capacity, q_stride]: heads * head_size queries lead each row
  std::uint32_t q_stride;
  std::uint32_t heads;  // a multiple of kv.kv_heads; head h reads kv head h / (heads / kv_heads)
  RowCount rows;
  const std::int32_t* positions;  // [capacity]
  const std::int32_t* slots;      // [capacity]
  float scale;
  std::uint32_t window;  // positions that a row sees, itself included; 0: all
  PagedKv kv;
  Rows y;  // [capacity, heads * head_size]
};

const Kernel<AttentionArgs>& attention();
Grid grid_of(const AttentionArgs& args, bool is_cuda);

}  // namespace attacca::kernels
