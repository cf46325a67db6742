// meeting_kernels.hpp: kernels whose blocks wait for each other, and persistent workers beside
// them.
#pragma once

#include <attacca/device/atomic.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

using MeetingCount = device::Atomic<std::uint32_t, device::Scope::gpu>;

/// Every block comes, waits until all others have come, and adds one to `met`. A block that waits
/// longer than that gives up, and does not add.
struct MeetArgs {
  MeetingCount* come;  // by all launches so far
  MeetingCount* met;
  std::uint64_t patience_nanoseconds;
};
extern const Kernel<MeetArgs> meet;
/// The same on a GPU. The host's body has no blocks that wait.
extern const Kernel<MeetArgs> meet_on_gpu;
/// A body of one call for each block on the host, which does not wait either.
extern const Kernel<MeetArgs> meet_on_gpu_by_block;

/// Stands for persistent workers: each adds one.
struct WorkArgs {
  MeetingCount* done;
};
extern const Kernel<WorkArgs> work_persistently;

}  // namespace attacca::test
