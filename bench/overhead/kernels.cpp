// kernels.cpp: the kernels of kernels.hpp and their hand-written twins. Compiled by nvcc in a CUDA
// build.
#include "kernels.hpp"

namespace bench::kernels {

using attacca::Cost;
using attacca::LaunchingThread;
using attacca::Thread;

namespace {

/// The thread's index in a one-dimensional grid, as the twins need it.
ATTACCA_HD bool is_first(const Thread& t) { return t.block.x == 0 && t.thread.x == 0; }

/// Whether there is another pass; after the last one the count is zero again for the next launch.
ATTACCA_HD bool has_another_pass(unsigned* passes, unsigned limit) {
  const unsigned done = *passes + 1;
  *passes = done < limit ? done : 0;
  return done < limit;
}

struct Touch {
  static constexpr const char* name = "touch";
  using Args = TouchArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (is_first(t)) *a.cell += a.add;
  }
};

struct TouchEarly {
  static constexpr const char* name = "touch_early";
  static constexpr bool waits = true;
  using Args = TouchArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    if (is_first(t)) *a.cell += a.add;
  }
};

struct Count {
  static constexpr const char* name = "count";
  using Args = CountArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    if (is_first(t)) a.again.set(has_another_pass(a.passes, a.limit));
  }
};

struct Relaunch {
  static constexpr const char* name = "relaunch";
  using Args = RelaunchArgs;
  static Cost cost(const Args&) { return {.flops = 1, .bytes = 8}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) {
    if (is_first(t) && has_another_pass(a.passes, a.limit)) t.relaunch_self_as_first();
  }
};

struct Start {
  static constexpr const char* name = "start";
  using Args = StartArgs;
  static Cost cost(const Args&) { return {}; }
  ATTACCA_HD static void body(LaunchingThread& t, const Args& a) { t.launch(a.graph, a.mode); }
};

struct Work {
  static constexpr const char* name = "work";
  using Args = WorkArgs;
  static Cost cost(const Args& a) { return {.flops = 2.0 * a.turns, .bytes = 8}; }
  ATTACCA_HD static void body(Thread&, const Args& a) { do_work(a); }
};

#if defined(__CUDACC__)
__device__ bool is_first_thread() { return blockIdx.x == 0 && threadIdx.x == 0; }

__global__ void raw_touch_kernel(TouchArgs a) {
  if (is_first_thread()) *a.cell += a.add;
}
__global__ void raw_touch_early_kernel(TouchArgs a) {
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
  if (is_first_thread()) *a.cell += a.add;
}
__global__ void raw_count_kernel(cudaGraphConditionalHandle again, unsigned* passes,
                                 unsigned limit) {
  if (is_first_thread()) cudaGraphSetConditional(again, has_another_pass(passes, limit));
}
__global__ void raw_relaunch_kernel(RelaunchArgs a) {
  if (is_first_thread() && has_another_pass(a.passes, a.limit))
    cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
__global__ void raw_count_in_kernel(unsigned* again, unsigned* passes, unsigned limit) {
  if (is_first_thread()) *again = has_another_pass(passes, limit);
}
__global__ void raw_ask_kernel(const unsigned* again) {
  if (is_first_thread() && *again != 0)
    cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
__global__ void raw_start_kernel(StartArgs a) {
  if (!is_first_thread()) return;
  cudaGraphLaunch(static_cast<cudaGraphExec_t>(a.graph.exec),
                  a.mode == attacca::LaunchMode::tail ? cudaStreamGraphTailLaunch
                  : a.mode == attacca::LaunchMode::fire_and_forget
                      ? cudaStreamGraphFireAndForget
                      : cudaStreamGraphFireAndForgetAsSibling);
}
#endif

}  // namespace

const attacca::Kernel<TouchArgs> touch = attacca::make_kernel<Touch>();
const attacca::Kernel<TouchArgs> touch_early = attacca::make_kernel<TouchEarly>();
const attacca::Kernel<CountArgs> count = attacca::make_kernel<Count>();
const attacca::Kernel<RelaunchArgs> relaunch = attacca::make_kernel<Relaunch>();
const attacca::Kernel<StartArgs> start = attacca::make_kernel<Start>();
const attacca::Kernel<WorkArgs> work = attacca::make_kernel<Work>();
const attacca::PersistentProgram touch_and_count = attacca::make_persistent<Touch, Count>();

#if defined(__CUDACC__)
const RawKernels raw{reinterpret_cast<const void*>(&raw_touch_kernel),
                     reinterpret_cast<const void*>(&raw_touch_early_kernel),
                     reinterpret_cast<const void*>(&raw_count_kernel),
                     reinterpret_cast<const void*>(&raw_relaunch_kernel),
                     reinterpret_cast<const void*>(&raw_count_in_kernel),
                     reinterpret_cast<const void*>(&raw_ask_kernel),
                     reinterpret_cast<const void*>(&raw_start_kernel)};
#else
const RawKernels raw{};
#endif

}  // namespace bench::kernels
