// one_sided_kernel.hpp: kernels that write, read and wait on symmetric memory of several ranks, in
// processes and on GPUs that can address it. Waits have a deadline.
#pragma once

#include <attacca/device/rank_barrier.hpp>
#include <attacca/kernel.hpp>
#include <cstddef>
#include <cstdint>

namespace attacca::comm {

/// Copies, and then sets a signal of the other rank.
struct PutArgs {
  const std::byte* from;
  std::byte* to;
  std::uint64_t bytes;
  std::uint64_t* signal;
  std::uint64_t value;
};
/// Longer data is copied by a copy before the kernel, which then only signals.
inline constexpr std::size_t kMostPutByKernel = 64 << 10;
const Kernel<PutArgs>& put_kernel();
/// One block: its threads copy together.
Grid put_grid(std::size_t bytes, bool is_cuda);

/// Waits until a signal of this rank is at least `value`.
struct WaitArgs {
  std::uint64_t* signal;
  std::uint64_t value;
  std::uint32_t from;  // the rank that sets it
  std::uint64_t nanoseconds;
};
/// One thread.
const Kernel<WaitArgs>& wait_kernel();

struct FetchAddArgs {
  std::uint64_t* counter;
  std::uint64_t value;
  std::uint64_t* before;
};
/// One thread.
const Kernel<FetchAddArgs>& fetch_add_kernel();

/// Meets the other ranks.
struct MeetArgs {
  device::RankBarrier barrier;
  std::uint32_t* met;  // of this rank: how often it has met the others
  std::uint64_t nanoseconds;
};
/// One thread.
const Kernel<MeetArgs>& meet_kernel();

}  // namespace attacca::comm
