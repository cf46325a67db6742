// sm90_warpgroups.cuh: inline PTX for kernels whose warpgroups have roles: barriers of some of a
// block's threads, registers that one warpgroup gives another, and the fence between ordinary
// stores and wgmma. Only files for sm_90a include this.
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

}  // namespace attacca::sm90
