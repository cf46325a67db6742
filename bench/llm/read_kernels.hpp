// read_kernels.hpp: a kernel that reads memory and does nothing else.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace bench {

/// 16 bytes that one load fetches.
struct alignas(16) Quad {
  std::uint32_t x, y, z, w;
};

struct ReadArgs {
  const Quad* from;
  std::uint64_t count;  // of quads
  std::uint32_t* seen;  // [1]; written where the words read cancel out, which keeps the reads
};

const attacca::Kernel<ReadArgs>& read_memory();
/// Blocks for a GPU with that many processors.
attacca::Grid read_grid(unsigned processors);

}  // namespace bench
