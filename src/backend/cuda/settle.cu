// settle.cu: the kernel that waits for spawned kernels: one thread, growing pauses, a deadline.
#include <attacca/thread.hpp>

#include "backend/cuda/settle.hpp"

namespace attacca::cuda {

namespace {

constexpr unsigned long long kDeadlineNs = 60'000'000'000ull;
constexpr unsigned kLongestPauseNs = 1024;

__device__ unsigned long long now_ns() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void wait_for_spawned_kernel(const __grid_constant__ attacca::detail::LaunchPort port) {
  const unsigned long long start = now_ns();
  unsigned pause = 32;
  // acquire pairs with the release of each block that ended: later nodes see what they wrote.
  while (__nv_atomic_load_n(port.pending, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE) != 0) {
    __nanosleep(pause);
    pause = pause < kLongestPauseNs ? 2 * pause : kLongestPauseNs;
    if (now_ns() - start > kDeadlineNs) {
      attacca::detail::report(port, LaunchStatus::spawn_overdue);
      return;
    }
  }
}

}  // namespace

const void* settle_kernel() { return reinterpret_cast<const void*>(&wait_for_spawned_kernel); }

}  // namespace attacca::cuda
