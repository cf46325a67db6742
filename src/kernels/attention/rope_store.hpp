// rope_store.hpp: between the query/key/value product and attention: normalizes queries and keys
// where the architecture does, rotates them by their positions, and stores keys and values in
// their pages. Queries stay in place.
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
  const std::int32_t* slots;      // [capacity]: whose block table
  const float* frequencies;       // [rotary_size / 2]: angle = position * frequency
  const float* query_norm;        // [head_size], or null
  const float* key_norm;          // [head_size], or null
  float epsilon;
  RotaryPairs pairs;
  std::uint32_t rotary_size;  // elements of a head that rotate, the first ones
  std::uint32_t heads;
  PagedKv kv;
};

const Kernel<RopeStoreArgs>& rope_store();
Grid grid_of(const RopeStoreArgs& args, bool is_cuda);

}  // namespace attacca::kernels
