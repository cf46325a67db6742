// meeting_kernels.hpp: kernels whose blocks wait for each other, and persistent workers beside
// them.
#pragma once

#include <attacca/device/atomic.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

using MeetingCount = device::Atomic<std::uint32_t, device::Scope::gpu>;

/// Every block arrives, waits until all others have arrived, and adds one to `met`. A block that
/// waits longer than `patience_nanoseconds` gives up and does not add.
struct MeetArgs {
  MeetingCount* come;  // arrivals of all launches so far
  MeetingCount* met;
  std::uint64_t patience_nanoseconds;
};
extern const Kernel<MeetArgs> meet;
/// The same on a GPU. On the host no block waits.
extern const Kernel<MeetArgs> meet_on_gpu;
/// The same, with one call for each block on the host.
extern const Kernel<MeetArgs> meet_on_gpu_by_block;

/// Stands in for persistent workers: each adds one.
struct WorkArgs {
  MeetingCount* done;
};
extern const Kernel<WorkArgs> work_persistently;

}  // namespace attacca::test
