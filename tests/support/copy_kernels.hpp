// copy_kernels.hpp: kernels that stream arrays through shared memory and transpose tiles, in the
// shapes of the tests of staged_copy.hpp and tile.hpp.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>
#include <vector>

namespace attacca::test {

/// Block b takes `per_block` elements from element b * per_block on, chunk by chunk, and writes
/// each chunk backwards, so that element i of n comes from another thread's copy. It makes `passes`
/// passes with one pipeline. Pass p starts p elements further on and writes the p-th copy of the
/// output.
struct StreamArgs {
  const void* in;           // [count + passes - 1]
  void* out;                // [passes, count]
  std::uint64_t count;      // elements
  std::uint64_t per_block;  // elements
  unsigned passes;
};

/// One instantiation of a pipeline.
struct StreamCase {
  const char* name;
  Kernel<StreamArgs> kernel;
  unsigned element_bytes;
  unsigned chunk;  // elements
};
const std::vector<StreamCase>& stream_cases();

/// out[c, r] = in[r, c] through a padded tile of 32 by 32; blocks of 32 by 8 threads.
struct TransposeArgs {
  const void* in;  // [rows, columns]
  void* out;       // [columns, rows]
  unsigned rows;
  unsigned columns;
};

struct TransposeCase {
  Kernel<TransposeArgs> kernel;
  unsigned element_bytes;
};
const std::vector<TransposeCase>& transpose_cases();
inline constexpr unsigned kTransposeTile = 32;
inline constexpr unsigned kTransposeRows = 8;  // threads along y

}  // namespace attacca::test
