// nested.hpp: kernels that spawn kernels (dynamic parallelism). Needs the target attacca::nested,
// and kernel files compiled with relocatable device code (attacca_nested_kernels in CMake).
//
//   ATTACCA_HD static void body(SpawningThread& t, const Args& a) {
//     t.spawn<Refine>(Grid{...}, {...}, SpawnMode::fire_and_forget);
//   }
#pragma once

#include <attacca/device.hpp>
#include <attacca/kernel.hpp>
#include <cstddef>

namespace attacca {

///  fire_and_forget  at once; the spawning kernel ends when it and these have ended
///  tail             when the spawning kernel and those it fired have ended; tails run in order
enum class SpawnMode : std::uint8_t { fire_and_forget, tail };

#if defined(__CUDACC__)
namespace detail {
template <class K>
__global__ void spawned_kernel(typename K::Args args, LaunchPort port);

/// Adds to the count of spawned blocks that later work must wait for. On a stream the driver waits
/// for spawned kernels by itself. In a graph it does not (tried on CUDA 13.0), so we count, and a
/// node behind the kernel waits (backend/cuda/settle.cu). The release publishes the block's writes
/// to that node.
__device__ inline void count_pending(const LaunchPort& port, std::uint64_t blocks) {
  if (port.pending)
    __nv_atomic_fetch_add(port.pending, static_cast<unsigned>(blocks), __NV_ATOMIC_RELEASE,
                          __NV_THREAD_SCOPE_DEVICE);
}
}  // namespace detail
#endif

/// A thread of a kernel that spawns kernels. Unlike a launch, every thread that calls spawns.
/// Device code cannot wait for a spawned kernel: spawn later work as a tail.
class SpawningThread : public WaitingThread {
 public:
  using WaitingThread::WaitingThread;

  template <class K>
  ATTACCA_HD LaunchStatus spawn(const Grid& grid, const typename K::Args& args,
                                SpawnMode mode) const {
    static_assert(K::name != nullptr, "a kernel has a name");
#if defined(__CUDA_ARCH__)
    const cudaStream_t stream =
        mode == SpawnMode::tail ? cudaStreamTailLaunch : cudaStreamFireAndForget;
    const dim3 blocks(grid.blocks.x, grid.blocks.y, grid.blocks.z);
    const dim3 threads(grid.threads.x, grid.threads.y, grid.threads.z);
    const detail::SpawnFacts facts{grid.blocks, grid.threads, grid.shared_bytes};
    const auto* kernel = reinterpret_cast<const void*>(&detail::spawned_kernel<K>);
    // Do not try such a grid: memcheck reports that the driver writes out of bounds.
    if (!detail::can_be_spawned(facts))
      return refuse(port_, facts, kernel, cudaErrorInvalidConfiguration);
    detail::count_pending(port_, grid.blocks.count());
    detail::spawned_kernel<K><<<blocks, threads, grid.shared_bytes, stream>>>(args, port_);
    const cudaError_t error = cudaGetLastError();
    if (error == cudaSuccess) return LaunchStatus::launched;
    detail::count_pending(port_, -grid.blocks.count());
    return refuse(port_, facts, kernel, error);
#else
    return this->frame_->spawn(detail::info_of<K, kCompilesCuda>(), grid, &args,
                               mode == SpawnMode::tail);
#endif
  }

#if defined(__CUDACC__)
 private:
  /// Names a refusal and tells the host. By value, as in LaunchingThread.
  __device__ static __noinline__ LaunchStatus refuse(detail::LaunchPort port,
                                                     detail::SpawnFacts grid, const void* kernel,
                                                     cudaError_t error) {
#if defined(__CUDA_ARCH__)
    // When too many are pending, the driver returns one of these two errors. It also returns the
    // second for blocks with more threads than the kernel's registers allow.
    const bool is_out_of_resources = error == cudaErrorLaunchOutOfResources;
    if (error == cudaErrorLaunchPendingCountExceeded)
      return detail::report(port, LaunchStatus::spawn_budget);
    bool fits = error != cudaErrorInvalidConfiguration;
    if (fits && is_out_of_resources) {
      cudaFuncAttributes attributes;
      fits = cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess ||
             grid.threads.count() <= static_cast<unsigned>(attributes.maxThreadsPerBlock);
    }
    if (!fits) {
      if (detail::claim(port)) {
        port.fault->spawn = grid;
        detail::publish(port, LaunchStatus::invalid_grid);
      }
      return LaunchStatus::invalid_grid;
    }
    if (is_out_of_resources) return detail::report(port, LaunchStatus::spawn_budget);
    return detail::report(port, LaunchStatus::driver_error, static_cast<unsigned>(error));
#else
    return (void)port, (void)grid, (void)kernel, (void)error, LaunchStatus::driver_error;
#endif
  }
#endif
};

#if defined(__CUDACC__)
namespace detail {
/// The __global__ function of a spawned kernel.
template <class K>
__global__ void spawned_kernel(typename K::Args args, LaunchPort port) {
  static_assert(!std::is_same_v<ThreadOf<K>, LaunchingThread>,
                "a spawned kernel is in no graph, so it cannot launch graphs");
  if constexpr (std::is_same_v<ThreadOf<K>, Thread>) {
    Thread thread;
    run_on_device<K>(thread, args);
  } else {
    LaunchPort own = port;
    own.is_spawned = 1;
    ThreadOf<K> thread(own);
    run_on_device<K>(thread, args);
  }
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0)
    count_pending(port, ~std::uint64_t{0});  // one less
}
}  // namespace detail
#endif

namespace nested {

inline constexpr std::size_t kDefaultPendingLaunches = 2048;

struct Limits {
  std::size_t pending_launches = kDefaultPendingLaunches;  // spawned and not yet ended, at most
  std::size_t stack_bytes = 0;                             // per device thread; 0 leaves it alone
};

/// Sets the device's limits. On CUDA, before anything was launched on it. Throws BadArgument for a
/// value out of range and DeviceError where the driver refuses, each with the value and the remedy.
void set_limits(const Device& device, const Limits& limits);

}  // namespace nested
}  // namespace attacca
