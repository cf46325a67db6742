// thread.hpp: a thread of a kernel: its indices and the calls it may make. The type of a body's
// first parameter says which: a Thread computes, a WaitingThread waits for other blocks or for the
// host, a LaunchingThread launches graphs, a SpawningThread spawns kernels (see nested.hpp). Graphs
// are validated by these types, so no promise is made twice.
#pragma once

#include <attacca/device/atomic.hpp>
#include <attacca/device/records_ref.hpp>
#include <attacca/grid.hpp>
#include <attacca/handles.hpp>
#include <attacca/target.hpp>
#include <cstdint>

namespace attacca {

struct KernelInfo;

/// When a graph launched from the device runs.
///  tail             after the launching graph's whole environment: its nodes and the graphs it
///                   fired; tails run in order, and the tails of a tail run first
///  fire_and_forget  at once, inside the launching graph's environment: it holds tails back
///  sibling          at once, in the environment of the launching graph's parent: it does not
enum class LaunchMode : std::uint8_t { tail, fire_and_forget, sibling };

/// The outcome of a launch or spawn. All but the first two are reported to the host as well.
enum class LaunchStatus : std::uint8_t {
  launched,
  not_elected,             // another thread of the grid made the launch
  fire_and_forget_budget,  // 120 per execution of the launching graph
  tail_budget,             // 255 per execution of the launching graph
  relaunch_budget,         // 1 per execution of the launching graph
  busy,                    // that graph is running or already pending
  spawn_budget,            // pending nested launches, see nested.hpp
  not_a_device_graph,      // relaunch_self outside a DeviceExec
  spawn_overdue,           // only to the host: spawned kernels that did not end for a minute
  barrier_overdue,         // only to the host: a block that others waited for; see persistent.hpp
  wait_overdue,            // only to the host: a wait that timed out; see WaitingThread
  source_broken,           // only to the host: the source of the kernel's work broke
  invalid_grid,            // a spawn: too many threads, too much shared memory, or nothing to run
  driver_error,            // any other error of the driver; the host is told its name
};

inline constexpr unsigned kMaxFireAndForget = 120;
inline constexpr unsigned kMaxTails = 255;
inline constexpr unsigned kMaxRelaunches = 1;

namespace detail {

/// Launches made by one execution of a graph.
struct LaunchCounts {
  unsigned fire_and_forget = 0;
  unsigned tails = 0;
  unsigned relaunches = 0;
};

/// Counts one more launch against its budget. For counts of one thread, or under a lock.
ATTACCA_HD constexpr LaunchStatus charge(LaunchCounts& counts, LaunchMode mode) {
  if (mode == LaunchMode::tail) {
    if (counts.tails == kMaxTails) return LaunchStatus::tail_budget;
    ++counts.tails;
  } else {
    if (counts.fire_and_forget == kMaxFireAndForget) return LaunchStatus::fire_and_forget_budget;
    ++counts.fire_and_forget;
  }
  return LaunchStatus::launched;
}
ATTACCA_HD constexpr LaunchStatus charge_relaunch(LaunchCounts& counts) {
  if (counts.relaunches == kMaxRelaunches) return LaunchStatus::relaunch_budget;
  ++counts.relaunches;
  return LaunchStatus::launched;
}

/// The same for counts shared by kernels that may run side by side.
ATTACCA_HD inline bool takes_one(unsigned& count, unsigned most) {
  const device::AtomicRef<unsigned, device::Scope::gpu> shared(count);
  if (shared.fetch_add(1, device::relaxed) < most) return true;
  shared.fetch_sub(1, device::relaxed);  // so that it never wraps around
  return false;
}
ATTACCA_HD inline LaunchStatus charge_shared(LaunchCounts& counts, LaunchMode mode) {
  if (mode == LaunchMode::tail)
    return takes_one(counts.tails, kMaxTails) ? LaunchStatus::launched : LaunchStatus::tail_budget;
  return takes_one(counts.fire_and_forget, kMaxFireAndForget)
             ? LaunchStatus::launched
             : LaunchStatus::fire_and_forget_budget;
}
ATTACCA_HD inline LaunchStatus charge_shared_relaunch(LaunchCounts& counts) {
  return takes_one(counts.relaunches, kMaxRelaunches) ? LaunchStatus::launched
                                                      : LaunchStatus::relaunch_budget;
}

/// A wait that timed out.
struct WaitFacts {
  unsigned what;  // index in the kernel's `waits_for`
  unsigned block;
  unsigned thread;
  std::uint64_t wanted;
  std::uint64_t seen;
  std::uint64_t nanoseconds;
};

inline constexpr unsigned kMostBlockThreads = 1024;
inline constexpr unsigned kMostSpawnedSharedBytes = 48 << 10;

/// The grid of a spawn that was refused.
struct SpawnFacts {
  Dim3 blocks;
  Dim3 threads;
  unsigned shared_bytes;
};
/// Whether every device could launch it, apart from a kernel's registers.
ATTACCA_HD constexpr bool can_be_spawned(const SpawnFacts& grid) {
  const std::uint64_t threads = grid.threads.count();
  return threads != 0 && threads <= kMostBlockThreads && grid.threads.z <= 64 &&
         grid.blocks.count() != 0 && grid.blocks.x <= 0x7fffffffu && grid.blocks.y <= 65535 &&
         grid.blocks.z <= 65535 && grid.shared_bytes <= kMostSpawnedSharedBytes;
}

/// A failure in a kernel, written by the device into pinned memory and read by the host at
/// `synchronize`. Each kernel that may report has one of its own, so that recording a refusal takes
/// one plain store: the code for it is in every launching kernel.
struct FaultRecord {
  static constexpr unsigned kStatusBits = 8;
  unsigned status;      // a LaunchStatus, a detail above it; 0 is no fault
  unsigned is_claimed;  // by the one thread that writes `wait` or `spawn`
  WaitFacts wait;
  SpawnFacts spawn;
};

/// Second parameter of a CUDA kernel that may report to the host.
struct LaunchPort {
  LaunchCounts* shared = nullptr;  // null where only one kernel launches: it counts in registers
  FaultRecord* fault = nullptr;
  unsigned is_alone = 0;    // 1: the one launching kernel of a DeviceExec, which may relaunch it
  unsigned is_spawned = 0;  // 1: reports for the kernel that spawned it, whose `waits_for` is known
  unsigned* pending =
      nullptr;                // spawned blocks not yet ended; null where the driver waits for them
  device::SiteRef site = {};  // records launches where `shared` is not null
};

/// Records a launch. It comes before the launch, so that its time is before what the graph records.
ATTACCA_HD inline void record_launch(const device::SiteRef& site, const void* graph,
                                     LaunchMode mode) {
  if (!site) return;
  site.add_launch(mode == LaunchMode::tail              ? device::SiteEvent::tail
                  : mode == LaunchMode::fire_and_forget ? device::SiteEvent::fire_and_forget
                                                        : device::SiteEvent::sibling,
                  graph);
}

#if defined(__CUDACC__)
/// Records a refusal for the host, and returns it. REQUIRES: not `launched`.
__device__ inline LaunchStatus report(const LaunchPort& port, LaunchStatus status,
                                      unsigned detail = 0) {
  *const_cast<volatile unsigned*>(&port.fault->status) =
      static_cast<unsigned>(status) | detail << FaultRecord::kStatusBits;
  return status;
}
/// Whether this thread is the first of its kernel to report facts.
__device__ inline bool claim(const LaunchPort& port) {
  const device::AtomicRef<unsigned, device::Scope::gpu> claimed(port.fault->is_claimed);
  return claimed.exchange(1, device::relaxed) == 0;
}
/// release pairs with the acquire at `synchronize`: the status is seen after the facts.
__device__ inline void publish(const LaunchPort& port, LaunchStatus status) {
  const device::AtomicRef<unsigned, device::Scope::system> told(port.fault->status);
  told.store(static_cast<unsigned>(status), device::release);
}
/// Records a wait that timed out: the first one of a kernel, if it has a record.
__device__ inline void report_wait(const LaunchPort& port, const WaitFacts& facts) {
  if (!port.fault || !claim(port)) return;
  port.fault->wait = facts;
  if (port.is_spawned) port.fault->wait.what = ~0u;  // the host has no name for it
  publish(port, LaunchStatus::wait_overdue);
}
#endif

/// The host executor's state for a running kernel.
class HostFrame {
 public:
  using BlockRange = void (*)(void* context, std::uint64_t first, std::uint64_t last);
  virtual void run_blocks(std::uint64_t blocks, BlockRange range, void* context) = 0;
  virtual LaunchStatus launch(DeviceGraph graph, LaunchMode mode) = 0;
  virtual LaunchStatus relaunch_self() = 0;
  virtual LaunchStatus spawn(const KernelInfo& kernel, const Grid& grid, const void* args,
                             bool is_tail) = 0;
  virtual void waited() = 0;
  virtual void give_up(const WaitFacts& facts) = 0;
  virtual void source_broke(unsigned source) = 0;

 protected:
  ~HostFrame() = default;
};

}  // namespace detail

/// One thread of a kernel.
class Thread {
 public:
  Dim3 block;    // index of the block in the grid
  Dim3 thread;   // index of the thread in the block
  Dim3 blocks;   // blocks in the grid
  Dim3 threads;  // threads in a block

  ATTACCA_HD std::uint64_t index() const {
    return static_cast<std::uint64_t>(block.x) * threads.x + thread.x;
  }
  ATTACCA_HD std::uint64_t stride() const {
    return static_cast<std::uint64_t>(blocks.x) * threads.x;
  }
  /// Whether this is the grid's first thread, the one elected for launches.
  ATTACCA_HD bool is_first() const {
    return (block.x | block.y | block.z | thread.x | thread.y | thread.z) == 0;
  }

  /// Waits until every producer behind a programmatic edge has ended and its writes are visible.
  ATTACCA_HD void wait_for_producers() const {
#if defined(__CUDA_ARCH__)
    cudaGridDependencySynchronize();
#else
    frame_->waited();
#endif
  }
  /// Lets consumers behind a programmatic edge start early. Gives them no view of our writes.
  ATTACCA_HD void release_consumers() const {
#if defined(__CUDA_ARCH__)
    cudaTriggerProgrammaticLaunchCompletion();
#endif
  }

#if defined(__CUDACC__)
  __device__ Thread()
      : block{blockIdx.x, blockIdx.y, blockIdx.z},
        thread{threadIdx.x, threadIdx.y, threadIdx.z},
        blocks{gridDim.x, gridDim.y, gridDim.z},
        threads{blockDim.x, blockDim.y, blockDim.z} {}
  /// A thread of a virtual block; used by persistent kernels.
  __device__ Thread(Dim3 virtual_block, Dim3 virtual_blocks)
      : block(virtual_block),
        thread{threadIdx.x, threadIdx.y, threadIdx.z},
        blocks(virtual_blocks),
        threads{blockDim.x, blockDim.y, blockDim.z} {}
#endif
  Thread(detail::HostFrame& frame, const Grid& grid)
      : block{0, 0, 0},
        thread{0, 0, 0},
        blocks(grid.blocks),
        threads(grid.threads),
        frame_(&frame) {}

 protected:
  detail::HostFrame* frame_ = nullptr;  // host
};

/// A thread of a kernel that polls memory which other blocks, another kernel or the host will
/// write. Every such wait has a bound. A thread whose wait times out reports that and exits; the
/// next `synchronize` of the stream throws WaitOverdue, and the device stays usable.
class WaitingThread : public Thread {
 public:
  using Thread::Thread;
#if defined(__CUDACC__)
  __device__ explicit WaitingThread(const detail::LaunchPort& port) : port_(port) {}
  /// For a __global__ function that the library does not know; its reports go nowhere.
  __device__ WaitingThread() {}
#endif

  /// Tells the host that this thread waited for `what`, an index of the kernel's `waits_for`. It
  /// wanted a value and saw another. Only the first report of a kernel is kept.
  ATTACCA_HD void give_up(unsigned what, std::uint64_t wanted, std::uint64_t seen,
                          std::uint64_t nanoseconds) const {
    const detail::WaitFacts facts{what,
                                  block.x + blocks.x * (block.y + blocks.y * block.z),
                                  thread.x + threads.x * (thread.y + threads.y * thread.z),
                                  wanted,
                                  seen,
                                  nanoseconds};
#if defined(__CUDA_ARCH__)
    detail::report_wait(port_, facts);
#else
    frame_->give_up(facts);
#endif
  }
  /// Tells the host that the source of this kernel's work broke. `source` is the number under which
  /// it can explain itself.
  ATTACCA_HD void source_broke(unsigned source) const {
#if defined(__CUDA_ARCH__)
    if (port_.fault) detail::report(port_, LaunchStatus::source_broken, source);
#else
    frame_->source_broke(source);
#endif
  }

 protected:
  detail::LaunchPort port_;  // CUDA
};

/// A thread of a kernel that launches graphs. All threads of the grid may call; the first one
/// makes the launch, the others get `not_elected`.
class LaunchingThread : public WaitingThread {
 public:
  using WaitingThread::WaitingThread;

  ATTACCA_HD LaunchStatus launch(DeviceGraph graph, LaunchMode mode) {
    if (!is_first()) return LaunchStatus::not_elected;
#if defined(__CUDA_ARCH__)
    LaunchStatus status = LaunchStatus::launched;
    cudaError_t error = cudaSuccess;
    if (!port_.shared && graph.exec) [[likely]] {
      status = detail::charge(own_, mode);
      if (status == LaunchStatus::launched && (error = start(graph.exec, mode)) == cudaSuccess)
          [[likely]]
        return LaunchStatus::launched;
    }
    return launch_otherwise(port_, graph.exec, mode, false, status, error);
#else
    return frame_->launch(graph, mode);
#endif
  }

  /// Runs this kernel's graph once more, when everything it started has ended.
  ATTACCA_HD LaunchStatus relaunch_self() {
    return is_first() ? relaunch_self_as_first() : LaunchStatus::not_elected;
  }
  /// The same without an election. REQUIRES: the calling thread is the first.
  ATTACCA_HD LaunchStatus relaunch_self_as_first() {
#if defined(__CUDA_ARCH__)
    LaunchStatus status = LaunchStatus::launched;
    cudaError_t error = cudaSuccess;
    if (port_.is_alone) [[likely]] {
      status = detail::charge_relaunch(own_);
      if (status == LaunchStatus::launched &&
          (error = start(cudaGetCurrentGraphExec(), LaunchMode::tail)) == cudaSuccess) [[likely]]
        return LaunchStatus::launched;
    }
    return launch_otherwise(port_, cudaGetCurrentGraphExec(), LaunchMode::tail, true, status,
                            error);
#else
    return frame_->relaunch_self();
#endif
  }

 private:
#if defined(__CUDACC__)
  /// The slow path: other kernels launch too, or a launch is refused. `status` is `launched` unless
  /// our own count refused it; `error` is the driver's result. Out of line, because each line of
  /// code on the path of a launch that succeeds shows in the time of a small pass. By value,
  /// because memcheck reports a read of a graph kernel's parameters through a reference as out of
  /// bounds.
  __device__ static __noinline__ LaunchStatus launch_otherwise(detail::LaunchPort port, void* exec,
                                                               LaunchMode mode, bool is_relaunch,
                                                               LaunchStatus status,
                                                               cudaError_t error) {
    if (port.shared) {
      status = is_relaunch ? detail::charge_shared_relaunch(*port.shared)
                           : detail::charge_shared(*port.shared, mode);
      if (status == LaunchStatus::launched && exec) {
        detail::record_launch(port.site, exec, mode);
        if ((error = start(exec, mode)) == cudaSuccess) return status;
      }
    }
    if (status == LaunchStatus::launched)
      status = exec ? name_of(error, mode) : LaunchStatus::not_a_device_graph;
    return detail::report(port, status, static_cast<unsigned>(error));
  }
  /// For a graph that is running or pending, the driver returns "invalid value".
  __device__ static LaunchStatus name_of(cudaError_t error, LaunchMode mode) {
    if (error == cudaSuccess) return LaunchStatus::not_a_device_graph;  // the launch was not tried
    if (error == cudaErrorInvalidValue) return LaunchStatus::busy;
    if (error == cudaErrorLaunchPendingCountExceeded)
      return mode == LaunchMode::tail ? LaunchStatus::tail_budget
                                      : LaunchStatus::fire_and_forget_budget;
    return LaunchStatus::driver_error;
  }
  __device__ static cudaError_t start(void* exec, LaunchMode mode) {
#if defined(__CUDA_ARCH__)
    const cudaStream_t stream = mode == LaunchMode::tail ? cudaStreamGraphTailLaunch
                                : mode == LaunchMode::fire_and_forget
                                    ? cudaStreamGraphFireAndForget
                                    : cudaStreamGraphFireAndForgetAsSibling;
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(exec), stream);
#else
    return (void)exec, (void)mode, cudaErrorInvalidValue;
#endif
  }
#endif
  detail::LaunchCounts own_;
};

}  // namespace attacca
