// waits.hpp: the names of the waits in this folder's kernels, and their time limit. The waits
// themselves are in wait_bound.cuh and linear/ring.cuh.
#pragma once

#include <cstdint>

namespace attacca::kernels {

/// How long a thread waits before it gives up. No healthy wait takes a thousandth of it: a TMA copy
/// that cannot read its source ends the kernel with an error, so this only catches bugs and blocks
/// that are not resident together.
inline constexpr std::uint64_t kPatienceNanoseconds = 20'000'000'000;

/// The waits of a ring of stages, the first of a kernel's `waits_for`. A report says which stage
/// was wanted, by its index, and the mbarrier that was seen instead.
enum RingWait : unsigned { kWaitForFull, kWaitForEmpty, kRingWaits };
inline constexpr const char* kFullWait = "a stage to be filled by TMA (by index; saw its mbarrier)";
inline constexpr const char* kEmptyWait =
    "a stage to be released by its consumers (by index; saw its mbarrier)";

}  // namespace attacca::kernels
