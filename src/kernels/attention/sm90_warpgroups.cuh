// sm90_warpgroups.cuh: inline PTX for kernels whose warpgroups have roles: barriers of some of a
// block's threads, registers that one warpgroup gives another, copies of 8 bytes, and the fence
// between ordinary stores and wgmma. Only files for sm_90a include this.
#pragma once

namespace attacca::sm90 {

/// Barrier `id` (1 to 15) of `kThreads` threads; those that only arrive do not wait.
template <unsigned kThreads>
__device__ inline void sync_some(unsigned id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
template <unsigned kThreads>
__device__ inline void arrive_some(unsigned id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(kThreads) : "memory");
}
/// A barrier that tells whether `is_true` for all of its threads.
template <unsigned kThreads>
__device__ inline bool all_of(unsigned id, bool is_true) {
  unsigned result;
  asm volatile(
      "{ .reg .pred p, q; setp.ne.u32 p, %3, 0;\n"
      "bar.red.and.pred q, %1, %2, p; selp.u32 %0, 1, 0, q; }"
      : "=r"(result)
      : "r"(id), "n"(kThreads), "r"(static_cast<unsigned>(is_true))
      : "memory");
  return result != 0;
}

/// All threads of a warpgroup: leaves each with `kCount` registers.
template <unsigned kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <unsigned kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// Makes what this thread stored to shared memory visible to wgmma, behind a barrier.
__device__ inline void fence_for_wgmma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Copies 8 bytes to shared memory asynchronously, as attending::cp_async copies 16.
__device__ inline void cp_async_8(void* to, const void* from, bool is_there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(is_there ? 8u : 0u)
               : "memory");
}

/// The same address. What lies there stays in memory, since the compiler no longer knows it.
__device__ inline float* in_memory(float* numbers) {
  asm volatile("" : "+l"(numbers)::"memory");
  return numbers;
}

}  // namespace attacca::sm90
