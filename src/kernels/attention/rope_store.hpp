// rope_store.hpp: the kernel between the query/key/value product and attention. It applies the
// query and key norms where the architecture has them, applies RoPE, and stores keys and values in
// their pages. Queries stay in place. decode_attention.hpp does all this itself, and so does a
// product with the epilogue of rope_epilogue.hpp.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"
#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels {

/// Which elements of a head rotate together: (2i, 2i+1), or (i, i + half).
enum class RotaryPairs : std::uint32_t { adjacent, halves };

struct RopeStoreArgs {
  float* qkv;  // [capacity, (heads + 2 * kv_heads) * head_size]: queries, keys, values
  RowCount rows;
  const std::int32_t* positions;  // [capacity]
  const std::int32_t* slots;      // the row's block table
  const float* frequencies;       // [rotary_size / 2]: angle = position * frequency
  const float* query_norm;        // [head_size], or null
  const float* key_norm;          // [head_size], or null
  float epsilon;
  RotaryPairs pairs;
  std::uint32_t rotary_size;  // the first elements of a head, which rotate
  std::uint32_t heads;
  PagedKv kv;
};

const Kernel<RopeStoreArgs>& rope_store();
Grid grid_of(const RopeStoreArgs& args, bool is_cuda);

}  // namespace attacca::kernels
