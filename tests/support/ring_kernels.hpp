// ring_kernels.hpp: kernels that wait in vain, with short deadlines, at the rings of
// src/kernels/linear and at a BulkCopy. On the host they do nothing.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

/// What is missing at a ring of two stages.
///  nothing  all stages are filled, read and released
///  filler   no stage is filled
///  release  stages are filled and read, but none is released
enum class RingLack : std::uint32_t { nothing, filler, release };

struct RingArgs {
  RingLack lack;
  std::uint32_t stages;         // how many stages to fill and read
  const std::uint32_t* source;  // [4]: the contents of each stage
  std::uint32_t* given_up;      // [2]: waits that timed out, of the reader and of the filler
  std::uint32_t* sum;           // of all words read
};
/// A block of two warps: the first reads, the second fills.
extern const Kernel<RingArgs> use_ring;
inline constexpr unsigned kRingThreads = 64;

struct StarveArgs {
  // [2], by block. starve_pair: waits that timed out; starve_bulk_copy: 1 at the end.
  std::uint32_t* given_up;
};
/// A pair of blocks. The first waits for a stage that is never filled. The second waits in vain
/// too, with a much longer deadline; the first must tell it to give up.
extern const Kernel<StarveArgs> starve_pair;
/// Waits for chunks that nobody fetched.
extern const Kernel<StarveArgs> starve_bulk_copy;

}  // namespace attacca::test
