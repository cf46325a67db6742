// nested_kernels.cpp: the kernels of nested_kernels.hpp. Compiled by nvcc with -rdc=true in a CUDA
// build.
#include "nested_kernels.hpp"

namespace bench::kernels {

using attacca::Cost;
using attacca::Grid;
using attacca::SpawningThread;
using attacca::Thread;

namespace {

struct Child {
  static constexpr const char* name = "child";
  using Args = ChildArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (t.is_first()) *a.cell += 1;
  }
};

struct Spawn {
  static constexpr const char* name = "spawn";
  using Args = SpawnArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
    if (!t.is_first()) return;
    for (unsigned at = 0; at < a.children; ++at)
      t.spawn<Child>(Grid{{1, 1, 1}, {32, 1, 1}}, {a.cells + at}, a.mode);
  }
};

#if defined(__CUDACC__)
__device__ bool is_first_thread() { return blockIdx.x == 0 && threadIdx.x == 0; }

__global__ void raw_child_kernel(ChildArgs a) {
  if (is_first_thread()) *a.cell += 1;
}
__global__ void raw_spawn_kernel(SpawnArgs a) {
  if (!is_first_thread()) return;
  const cudaStream_t stream =
      a.mode == attacca::SpawnMode::tail ? cudaStreamTailLaunch : cudaStreamFireAndForget;
  for (unsigned at = 0; at < a.children; ++at)
    raw_child_kernel<<<1, 32, 0, stream>>>(ChildArgs{a.cells + at});
}
#endif

}  // namespace

const attacca::Kernel<ChildArgs> child = attacca::make_kernel<Child>();
const attacca::Kernel<SpawnArgs> spawn = attacca::make_kernel<Spawn>();

#if defined(__CUDACC__)
const RawNestedKernels raw_nested{reinterpret_cast<const void*>(&raw_child_kernel),
                                  reinterpret_cast<const void*>(&raw_spawn_kernel)};
#else
const RawNestedKernels raw_nested{};
#endif

}  // namespace bench::kernels
