// kernel.hpp: a kernel, declared once as a type:
//
//   struct Scale {
//     static constexpr const char* name = "scale";
//     struct Args { float* x; float factor; std::uint64_t count; };
//     static Cost cost(const Args& a) { return {.flops = 1.0 * a.count, .bytes = 8.0 * a.count}; }
//     ATTACCA_HD static void body(Thread& t, const Args& a) {
//       if (t.index() < a.count) a.x[t.index()] *= a.factor;
//     }
//   };
//   const Kernel<Scale::Args> scale = make_kernel<Scale>();
//
// `body` serves host and device. Where they must differ, declare `cuda(Thread&, const Args&)`,
// called by each thread, and either `host(const Grid&, const Args&)`, called once for the whole
// grid, or `host_block(Thread&, const Args&)`, called once for each block, blocks side by side.
// `static constexpr bool waits = true` promises that the body calls `wait_for_producers`.
// A body that takes a WaitingThread names the things it may wait for, for reports:
// `static constexpr const char* waits_for[] = {"a stage to be filled"}`. If blocks of one grid wait
// for each other, `static constexpr bool blocks_wait = true` says so. Such a kernel is refused
// unless all of its blocks fit on the device at once. In a graph it is also refused if it may run
// side by side with another such kernel or with persistent workers, because they could hold the
// processors that each other's blocks need. On two streams, or with a grid set by device code, this
// cannot be checked; there their waits time out. `max_threads` and `min_blocks` bound a block's
// threads and the registers of each. `cluster`, which needs both, is the number of neighbouring
// blocks that share their memory; grids are multiples of it. `static Accesses accesses(const
// Args&)` declares the memory that the kernel reads and writes (accesses.hpp).
//
// A file that calls make_kernel is compiled by g++ without CUDA and by nvcc with it; call it for
// one type in one file, and declare the kernel `extern` elsewhere.
#pragma once

#include <attacca/accesses.hpp>
#include <attacca/thread.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace attacca {

/// The arithmetic that most of a kernel's FLOPs are. bf16 and fp8 are those of a GPU's matrix
/// units.
enum class Arithmetic : std::uint8_t { fp32, bf16, fp8 };
inline constexpr int kArithmetics = 3;
constexpr const char* arithmetic_name(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::fp32 ? "fp32" : arithmetic == Arithmetic::bf16 ? "bf16" : "fp8";
}

/// Work a kernel does for given arguments.
struct Cost {
  double flops = 0;
  double bytes = 0;
  Arithmetic arithmetic = Arithmetic::fp32;

  friend bool operator==(const Cost&, const Cost&) = default;
};

/// The behaviour of a kernel that graphs must know.
struct KernelTraits {
  bool waits = false;     // calls wait_for_producers
  bool launches = false;  // launches graphs
  bool spawns = false;    // spawns kernels
  bool is_cooperative = false;
  bool is_persistent = false;        // each block is a worker that pulls its work
  bool is_blockwise = false;         // on the host a block is one call, worth a thread of its own
  bool has_port = false;             // may report to the host: takes a detail::LaunchPort on CUDA
  bool blocks_wait = false;          // blocks of one grid wait for each other
  bool blocks_wait_on_host = false;  // the host's blocks too: each needs a thread
};

namespace detail {
struct ParameterList;
}

/// A kernel with its argument type erased. Identified by address, so it must outlive all its users.
struct KernelInfo {
  const char* name;
  std::size_t args_size;
  KernelTraits traits;
  void (*host)(detail::HostFrame&, const Grid&, const void* args);  // null for a plain CUDA kernel
  const void* cuda;  // the __global__ function; null where compiled without CUDA
  Cost (*cost)(const void* args);
  std::span<const char* const> waits_for{};           // names of its waits, for reports
  Accesses (*accesses)(const void* args) = nullptr;   // null: not declared
  const detail::ParameterList* parameters = nullptr;  // null: one argument struct
};

/// A kernel that takes `Args`. A cheap value; passing another struct does not compile.
template <class ArgsType>
class Kernel {
 public:
  using Args = ArgsType;
  static_assert(std::is_trivially_copyable_v<Args>,
                "kernel arguments cross to the device as bytes: make them trivially copyable");
  static_assert(alignof(Args) <= 16, "kernel arguments are aligned to at most 16 bytes");
  static_assert(sizeof(Args) <= 4000, "kernel arguments are limited to 4000 bytes: pass a pointer");

  constexpr explicit Kernel(const KernelInfo& info) : info_(&info) {}
  constexpr const KernelInfo& info() const { return *info_; }
  Cost cost(const Args& args) const { return info_->cost(&args); }

 private:
  const KernelInfo* info_;
};

class SpawningThread;

namespace detail {

template <class K, class T>
concept BodyTakes = requires(T& thread, const typename K::Args& args) {
  K::body(thread, args);
};
template <class K, class T>
concept CudaBodyTakes = requires(T& thread, const typename K::Args& args) {
  K::cuda(thread, args);
};
template <class K>
concept HasHostBody = requires(const Grid& grid, const typename K::Args& args) {
  K::host(grid, args);
};
template <class K>
concept HasHostBlockBody = requires(Thread& thread, const typename K::Args& args) {
  K::host_block(thread, args);
};
template <class K, class T>
concept Takes = BodyTakes<K, T> || CudaBodyTakes<K, T>;

/// The most modest thread type that the kernel's body accepts.
template <class K>
using ThreadOf =
    std::conditional_t<Takes<K, Thread> || (HasHostBody<K> && !Takes<K, WaitingThread>) ||
                           (HasHostBlockBody<K> && !Takes<K, WaitingThread>),
                       Thread,
                       std::conditional_t<Takes<K, WaitingThread>, WaitingThread,
                                          std::conditional_t<Takes<K, LaunchingThread>,
                                                             LaunchingThread, SpawningThread>>>;

template <class K>
constexpr KernelTraits traits_of() {
  KernelTraits traits;
  if constexpr (requires { K::waits; }) traits.waits = K::waits;
  if constexpr (requires { K::is_persistent; }) traits.is_persistent = K::is_persistent;
  traits.is_blockwise = HasHostBlockBody<K>;
  traits.launches = std::is_same_v<ThreadOf<K>, LaunchingThread>;
  traits.spawns = std::is_same_v<ThreadOf<K>, SpawningThread>;
  traits.has_port = !std::is_same_v<ThreadOf<K>, Thread>;
  if constexpr (requires { K::blocks_wait; }) traits.blocks_wait = K::blocks_wait;
  traits.blocks_wait_on_host = traits.blocks_wait && !HasHostBody<K> && !HasHostBlockBody<K>;
  return traits;
}
template <class K>
constexpr std::span<const char* const> waits_of() {
  if constexpr (requires { K::waits_for; }) {
    constexpr auto& all = K::waits_for;  // otherwise nvcc does not find its length in a template
    return {all, sizeof all / sizeof *all};
  }
  return {};
}

template <class K>
void run_on_host(HostFrame& frame, const Grid& grid, const void* raw) {
  const auto& args = *static_cast<const typename K::Args*>(raw);
  if constexpr (HasHostBody<K>) {
    K::host(grid, args);
  } else {
    struct Context {
      HostFrame& frame;
      const Grid& grid;
      const typename K::Args& args;
    } context{frame, grid, args};
    const auto range = [](void* erased, std::uint64_t first, std::uint64_t last) {
      const Context& c = *static_cast<Context*>(erased);
      ThreadOf<K> t(c.frame, c.grid);
      for (std::uint64_t block = first; block < last; ++block) {
        t.block.x = static_cast<unsigned>(block % c.grid.blocks.x);
        t.block.y = static_cast<unsigned>(block / c.grid.blocks.x % c.grid.blocks.y);
        t.block.z = static_cast<unsigned>(block / c.grid.blocks.x / c.grid.blocks.y);
        if constexpr (HasHostBlockBody<K>) {
          K::host_block(t, c.args);
        } else {
          for (t.thread.z = 0; t.thread.z < c.grid.threads.z; ++t.thread.z)
            for (t.thread.y = 0; t.thread.y < c.grid.threads.y; ++t.thread.y)
              for (t.thread.x = 0; t.thread.x < c.grid.threads.x; ++t.thread.x) K::body(t, c.args);
        }
      }
    };
    if constexpr (std::is_same_v<ThreadOf<K>, Thread> || std::is_same_v<ThreadOf<K>, WaitingThread>)
      frame.run_blocks(grid.blocks.count(), range, &context);
    else
      range(&context, 0, grid.blocks.count());
  }
}

#if defined(__CUDACC__)
template <class K, class T>
__device__ void run_on_device(T& thread, const typename K::Args& args) {
  if constexpr (CudaBodyTakes<K, T>)
    K::cuda(thread, args);
  else
    K::body(thread, args);
}
template <class K>
__global__ void plain_kernel(const __grid_constant__ typename K::Args args) {
  Thread thread;
  run_on_device<K>(thread, args);
}
template <class K>
__global__ void __launch_bounds__(K::max_threads, K::min_blocks)
    bounded_kernel(const __grid_constant__ typename K::Args args) {
  Thread thread;
  run_on_device<K>(thread, args);
}
template <class K>
__global__ void __cluster_dims__(K::cluster) __launch_bounds__(K::max_threads, K::min_blocks)
    clustered_kernel(const __grid_constant__ typename K::Args args) {
  Thread thread;
  run_on_device<K>(thread, args);
}
// The same for kernels that may report to the host.
template <class K>
__global__ void ported_kernel(const __grid_constant__ typename K::Args args,
                              const __grid_constant__ LaunchPort port) {
  ThreadOf<K> thread(port);
  run_on_device<K>(thread, args);
}
template <class K>
__global__ void __launch_bounds__(K::max_threads, K::min_blocks)
    bounded_ported_kernel(const __grid_constant__ typename K::Args args,
                          const __grid_constant__ LaunchPort port) {
  ThreadOf<K> thread(port);
  run_on_device<K>(thread, args);
}
template <class K>
__global__ void __cluster_dims__(K::cluster) __launch_bounds__(K::max_threads, K::min_blocks)
    clustered_ported_kernel(const __grid_constant__ typename K::Args args,
                            const __grid_constant__ LaunchPort port) {
  ThreadOf<K> thread(port);
  run_on_device<K>(thread, args);
}
#endif

/// The __global__ function of K, where nvcc compiles this file.
template <class K, bool kCuda>
const void* cuda_entry() {
  if constexpr (kCuda) {
#if defined(__CUDACC__)
    constexpr bool kHasPort = !std::is_same_v<ThreadOf<K>, Thread>;
    if constexpr (requires { K::cluster; } && kHasPort)
      return reinterpret_cast<const void*>(&clustered_ported_kernel<K>);
    else if constexpr (requires { K::cluster; })
      return reinterpret_cast<const void*>(&clustered_kernel<K>);
    else if constexpr (requires { K::max_threads; } && kHasPort)
      return reinterpret_cast<const void*>(&bounded_ported_kernel<K>);
    else if constexpr (requires { K::max_threads; })
      return reinterpret_cast<const void*>(&bounded_kernel<K>);
    else if constexpr (kHasPort)
      return reinterpret_cast<const void*>(&ported_kernel<K>);
    else
      return reinterpret_cast<const void*>(&plain_kernel<K>);
#endif
  }
  return nullptr;
}

template <class K>
Cost cost_of(const void* args) {
  return K::cost(*static_cast<const typename K::Args*>(args));
}

using AccessesOf = Accesses (*)(const void* args);
template <class K>
constexpr AccessesOf accesses_of() {
  if constexpr (requires(const typename K::Args& args) { K::accesses(args); })
    return [](const void* args) {
      return Accesses(K::accesses(*static_cast<const typename K::Args*>(args)));
    };
  else
    return nullptr;
}

template <class K, bool kCuda>
const KernelInfo& info_of() {
  static const KernelInfo info{K::name,         sizeof(typename K::Args), traits_of<K>(),
                               &run_on_host<K>, cuda_entry<K, kCuda>(),   &cost_of<K>,
                               waits_of<K>(),   accesses_of<K>()};
  return info;
}

}  // namespace detail

/// The kernel that type `K` declares, as the top of this file explains.
template <class K>
Kernel<typename K::Args> make_kernel() {
  return Kernel<typename K::Args>(detail::info_of<K, kCompilesCuda>());
}

}  // namespace attacca
