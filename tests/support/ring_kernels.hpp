// ring_kernels.hpp: kernels that wait in vain at the rings of src/kernels/linear and at a BulkCopy,
// with little patience. They do something on a GPU only.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

/// What is missing at a ring of two stages.
///  nothing  stages are filled, read and released
///  filler   no stage is filled
///  release  stages are filled and read, but none is released
enum class RingLack : std::uint32_t { nothing, filler, release };

struct RingArgs {
  RingLack lack;
  std::uint32_t stages;         // that are to be filled and read
  const std::uint32_t* source;  // [4], which each stage is filled with
  std::uint32_t* given_up;      // [2]: waits that ended unanswered, of the reader and the filler
  std::uint32_t* sum;           // of what was read
};
/// A block of two warps: the first reads, the second fills.
extern const Kernel<RingArgs> use_ring;
inline constexpr unsigned kRingThreads = 64;

struct StarveArgs {
  // [2], by block. starve_pair: waits that ended unanswered; starve_bulk_copy: 1 at the end.
  std::uint32_t* given_up;
};
/// Two blocks, a pair: the first waits for a stage that is never filled. The second has much more
/// patience, for something that never comes, and is to be told by the first.
extern const Kernel<StarveArgs> starve_pair;
/// Waits for chunks that were not fetched.
extern const Kernel<StarveArgs> starve_bulk_copy;

}  // namespace attacca::test
