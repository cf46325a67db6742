// persistent.hpp: several kernels compiled into one that stays on the device and runs a loop's
// body pass after pass, with a grid barrier where the graph has an edge. One of the forms a Loop
// can take (loop.hpp); the list of kernels is fixed when the file is compiled:
//
//   const PersistentProgram relax_forever = make_persistent<Relax, TestResidual>();
#pragma once

#include <attacca/kernel.hpp>
#include <cstddef>
#include <vector>

namespace attacca {

/// One kernel launch of the body.
struct PersistentStep {
  unsigned kernel;  // index in the program's list
  Dim3 blocks;
  unsigned args_offset;  // in bytes, from the start of the code
};

/// Arguments of the persistent kernel.
struct PersistentArgs {
  const std::byte* code;  // the steps, then their arguments
  unsigned code_bytes;
  unsigned step_count;
  unsigned* again;    // the loop's condition
  unsigned* barrier;  // two words, zero at launch: arrivals, then generation and verdict
};

struct PersistentProgram {
  KernelInfo kernel;
  std::vector<const KernelInfo*> parts;
};

namespace detail {

#if defined(__CUDACC__)
inline constexpr unsigned kLocalCodeBytes = 8192;
inline constexpr unsigned kPollsBeforeSleep = 64;  // some 40 us
inline constexpr unsigned kSleepNanoseconds = 200;

/// Waits for all blocks of the grid; the last to arrive reads the condition where `is_last_step`,
/// so that no block can see a value of the next pass. True: go on.
__device__ inline bool grid_barrier(const PersistentArgs& args, unsigned generation,
                                    bool is_last_step) {
  __shared__ unsigned verdict;
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const auto wants_more = [&] {
      return is_last_step ? *static_cast<volatile unsigned*>(args.again) != 0 : true;
    };
    unsigned* const word = args.barrier + 1;
    if (gridDim.x == 1) {
      verdict = wants_more();
    } else if (__nv_atomic_fetch_add(args.barrier, 1u, __NV_ATOMIC_ACQ_REL,
                                     __NV_THREAD_SCOPE_DEVICE) +
                   1 ==
               generation * gridDim.x) {
      // Every arrival releases its block's writes, and the last one acquires them all. The store
      // below releases them to the blocks that wait.
      verdict = wants_more();
      __nv_atomic_store_n(word, generation * 2 + verdict, __NV_ATOMIC_RELEASE,
                          __NV_THREAD_SCOPE_DEVICE);
    } else {
      // The launch is cooperative, so every block is there, and the wait is as long as the slowest
      // block's work. Long waits leave the processor to the others.
      unsigned seen;
      for (unsigned polls = 0;; ++polls) {
        seen = __nv_atomic_load_n(word, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
        if (seen / 2 == generation) break;
        if (polls >= kPollsBeforeSleep) __nanosleep(kSleepNanoseconds);
      }
      verdict = seen & 1u;
    }
  }
  __syncthreads();
  return verdict != 0;
}

template <class K>
__device__ void run_step(const PersistentStep& step, const std::byte* code) {
  const typename K::Args args = *reinterpret_cast<const typename K::Args*>(code + step.args_offset);
  const std::uint64_t count = step.blocks.count();
  for (std::uint64_t block = blockIdx.x; block < count; block += gridDim.x) {
    Thread thread(Dim3{static_cast<unsigned>(block % step.blocks.x),
                       static_cast<unsigned>(block / step.blocks.x % step.blocks.y),
                       static_cast<unsigned>(block / step.blocks.x / step.blocks.y)},
                  step.blocks);
    run_on_device<K>(thread, args);
  }
}

template <class... K>
__global__ void persistent_kernel(const __grid_constant__ PersistentArgs args) {
  // Short code is kept on the processor: it spares two dependent reads of global memory per step.
  // On its own that showed no gain on an H200; the barrier was what counted.
  __shared__ alignas(16) std::byte local[kLocalCodeBytes];
  const bool is_local = args.code_bytes <= kLocalCodeBytes;
  if (is_local) {
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    for (unsigned at = thread; at < args.code_bytes; at += threads) local[at] = args.code[at];
    __syncthreads();
  }
  const std::byte* code = is_local ? local : args.code;
  const auto* steps = reinterpret_cast<const PersistentStep*>(code);
  unsigned generation = 0;
  for (;;) {
    for (unsigned at = 0; at < args.step_count; ++at) {
      const PersistentStep step = steps[at];
      unsigned index = 0;
      ((index++ == step.kernel ? run_step<K>(step, code) : void()), ...);
      if (!grid_barrier(args, ++generation, at + 1 == args.step_count)) return;
    }
  }
}
#endif

template <class... K>
void run_persistent_on_host(HostFrame& frame, const Grid& grid, const void* raw) {
  const auto& args = *static_cast<const PersistentArgs*>(raw);
  const auto* steps = reinterpret_cast<const PersistentStep*>(args.code);
  do {
    for (unsigned at = 0; at < args.step_count; ++at) {
      const PersistentStep& step = steps[at];
      const Grid step_grid{step.blocks, grid.threads};
      unsigned index = 0;
      ((index++ == step.kernel ? run_on_host<K>(frame, step_grid, args.code + step.args_offset)
                               : void()),
       ...);
    }
  } while (*static_cast<volatile unsigned*>(args.again) != 0);
}

template <bool kCuda, class... K>
const void* persistent_entry() {
  if constexpr (kCuda) {
#if defined(__CUDACC__)
    return reinterpret_cast<const void*>(&persistent_kernel<K...>);
#endif
  }
  return nullptr;
}

}  // namespace detail

/// The persistent form of kernels `K...`, each with a body that takes a plain Thread.
template <class... K>
PersistentProgram make_persistent() {
  static_assert((std::is_same_v<detail::ThreadOf<K>, Thread> && ...),
                "a kernel that launches or spawns cannot be part of a persistent kernel");
  KernelTraits traits;
  traits.is_cooperative = true;
  return {{"persistent", sizeof(PersistentArgs), traits, &detail::run_persistent_on_host<K...>,
           detail::persistent_entry<kCompilesCuda, K...>(), [](const void*) { return Cost{}; }},
          {&detail::info_of<K, kCompilesCuda>()...}};
}

}  // namespace attacca
