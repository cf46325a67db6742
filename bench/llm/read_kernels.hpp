// read_kernels.hpp: a kernel that only reads memory.
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
  std::uint64_t count;  // number of quads
  std::uint32_t* seen;  // [1]; written if the words cancel out, so the compiler keeps the reads
};

const attacca::Kernel<ReadArgs>& read_memory();
/// Blocks for a GPU with so many SMs.
attacca::Grid read_grid(unsigned processors);

}  // namespace bench
