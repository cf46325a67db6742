// lock_step_kernels.hpp: a kernel that goes in step with those of other ranks.
#pragma once

#include <attacca/device/rank_barrier.hpp>
#include <attacca/kernel.hpp>
#include <cstdint>

namespace attacca::test {

/// In turn 1, 2, 3, … writes 100 * rank + turn into the next rank's cell, meets the others, and
/// adds up what it finds in its own cell.
struct LockStepArgs {
  device::RankBarrier barrier{};
  std::uint32_t past = 0;  // meetings of earlier launches
  std::uint32_t turns = 0;
  const int* own = nullptr;
  int* next = nullptr;
  int* sum = nullptr;
  std::uint64_t patience_nanoseconds = 0;
};
extern const Kernel<LockStepArgs> lock_step;

}  // namespace attacca::test
