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
///  tail             when the spawning kernel and what it fired have ended; tails run in order
enum class SpawnMode : std::uint8_t { fire_and_forget, tail };

/// A thread of a kernel that spawns kernels. Unlike a launch, every thread that calls spawns.
/// There is no waiting for a spawned kernel on the device: what follows it goes into a tail.
class SpawningThread : public Thread {
 public:
  using Thread::Thread;
#if defined(__CUDACC__)
  __device__ explicit SpawningThread(const detail::LaunchPort& port) : port_(&port) {}
#endif

  template <class K>
  ATTACCA_HD LaunchStatus spawn(const Grid& grid, const typename K::Args& args,
                                SpawnMode mode) const {
#if defined(__CUDA_ARCH__)
    const cudaStream_t stream =
        mode == SpawnMode::tail ? cudaStreamTailLaunch : cudaStreamFireAndForget;
    const dim3 blocks(grid.blocks.x, grid.blocks.y, grid.blocks.z);
    const dim3 threads(grid.threads.x, grid.threads.y, grid.threads.z);
    if constexpr (std::is_same_v<detail::ThreadOf<K>, Thread>)
      detail::plain_kernel<K><<<blocks, threads, grid.shared_bytes, stream>>>(args);
    else
      detail::ported_kernel<K><<<blocks, threads, grid.shared_bytes, stream>>>(args, *port_);
    return detail::report(*port_, cudaGetLastError() == cudaSuccess ? LaunchStatus::launched
                                                                    : LaunchStatus::spawn_budget);
#else
    return this->frame_->spawn(detail::info_of<K, kCompilesCuda>(), grid, &args,
                               mode == SpawnMode::tail);
#endif
  }

 private:
  const detail::LaunchPort* port_ = nullptr;  // CUDA: the kernel's own parameter
};

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
