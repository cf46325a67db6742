// resident.cu: the hand-written scheduler: a kernel that counts, launches the work's graph as a
// tail and then its own graph again.
#include <cuda_runtime.h>

#include "claims/resident.hpp"

namespace bench::claims {

namespace {
__global__ void take_next_kernel(ByHandArgs a) {
  if (threadIdx.x != 0) return;
  const unsigned item = atomicAdd(a.next, 1u);
  if (item >= a.limit) return;
  *a.current = item;
  cudaGraphLaunch(static_cast<cudaGraphExec_t>(a.work), cudaStreamGraphTailLaunch);
  cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
}  // namespace

const void* take_next() { return reinterpret_cast<const void*>(&take_next_kernel); }

}  // namespace bench::claims
