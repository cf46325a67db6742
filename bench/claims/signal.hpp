// signal.hpp: ways to signal another thread and to wait for it, written once for host and device,
// and the kernels of the benchmark `signal` (signal.cu).
#pragma once

#include <atomic>
#include <attacca/device/signal.hpp>

#if defined(__CUDACC__)
#include <cuda/atomic>
#endif
#if ATTACCA_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace bench::signals {

using attacca::device::Atomic;
using attacca::device::Patience;
using attacca::device::Scope;
using attacca::device::Signal;

enum class Way : std::uint8_t {
  bare,          // acquires at every poll, with no back-off and no deadline
  signal,        // Signal::wait: the same with both
  fenced,        // relaxed polls, closed with a fence
  closing_load,  // relaxed polls, closed with an acquiring load
  seq_cst,       // sequentially consistent store and polls
  wait_notify,   // the standard library's; on the device at system scope with its defaults
};

/// Where two threads are, and where their shared words lie.
enum class Route : std::uint8_t {
  block_shared,
  block_memory,
  cluster_shared,
  cluster_memory,
  gpu,
  system,
  host_device
};
constexpr bool is_shared(Route route) {
  return route == Route::block_shared || route == Route::cluster_shared;
}

/// A word with a cache line to itself.
struct Line {
  alignas(128) std::uint32_t word;
};

/// Two sides that answer each other. Side 0 begins.
struct PingPong {
  enum At : std::uint8_t { there, back, data_there, data_back, done_0, done_1, kLines };
  Line* lines;  // [kLines], zero
  std::uint32_t rounds;
  std::uint32_t first_side;  // the side of the kernel's first warp
  bool has_data;             // each message is a plainly written word, which is checked
  Patience patience;
};

/// One thread that raises `count` flags (a power of two up to 16) again and again.
struct Publish {
  Line* lines;  // [17], zero: data, and then flags
  std::uint32_t rounds;
  std::uint32_t count;
  bool is_one_fence;  // or a release each
};

/// One block that raises a flag, and `waiters` blocks that wait for it and confirm.
struct Broadcast {
  enum At : std::uint8_t { flag, answers, done, kLines };
  Line* lines;  // [kLines], zero
  std::uint32_t rounds;
  std::uint32_t waiters;
  Patience patience;
};

template <Scope kScope, Way kWay>
ATTACCA_HD void announce(std::uint32_t& word, std::uint32_t value) {
  using namespace attacca::device;
  if constexpr (kWay == Way::wait_notify) {
#if !defined(__CUDA_ARCH__)
    const std::atomic_ref<std::uint32_t> ref(word);
    ref.store(value, std::memory_order_release);
    ref.notify_one();
#else
    if constexpr (kScope == Scope::system) {
      const cuda::atomic_ref<std::uint32_t> ref(word);
      ref.store(value);
      ref.notify_one();
    } else {
      const cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device> ref(word);
      ref.store(value, cuda::memory_order_release);
      ref.notify_one();
    }
#endif
  } else if constexpr (kWay == Way::seq_cst) {
    reinterpret_cast<Atomic<std::uint32_t, kScope>&>(word).store(value, seq_cst);
  } else {
    reinterpret_cast<Signal<kScope>&>(word).publish(value);
  }
}

/// Polls with Signal's back-off and deadline, without acquiring.
template <Scope kScope>
ATTACCA_HD bool poll_relaxed(const Atomic<std::uint32_t, kScope>& word, std::uint32_t value,
                             const Patience& patience) {
  using namespace attacca::device;
  return attacca::device::detail::wait_for<NativeMemory>(
      patience, value, [&] { return word.load(relaxed) == value; },
      [&] { return std::uint64_t{value - 1}; });
}

/// Waits for `value` where the value before it was. Returns false if it took too long.
template <Scope kScope, Way kWay>
ATTACCA_HD bool await(std::uint32_t& word, std::uint32_t value, const Patience& patience) {
  using namespace attacca::device;
  if constexpr (kWay == Way::wait_notify) {
#if !defined(__CUDA_ARCH__)
    std::atomic_ref<std::uint32_t>(word).wait(value - 1, std::memory_order_acquire);
#else
    if constexpr (kScope == Scope::system)
      cuda::atomic_ref<std::uint32_t>(word).wait(value - 1);
    else
      cuda::atomic_ref<std::uint32_t, cuda::thread_scope_device>(word).wait(
          value - 1, cuda::memory_order_acquire);
#endif
    return true;
  } else if constexpr (kWay == Way::signal) {
    return reinterpret_cast<const Signal<kScope>&>(word).wait(value, patience);
  } else if constexpr (kWay == Way::fenced) {
    const auto& atomic = reinterpret_cast<const Atomic<std::uint32_t, kScope>&>(word);
    if (!poll_relaxed(atomic, value, patience)) return false;
#if defined(__SANITIZE_THREAD__)
    (void)atomic.load(acquire);  // for a sanitizer that does not know fences
#else
    fence<kScope>(acquire);
#endif
    return true;
  } else {
    const auto& atomic = reinterpret_cast<const Atomic<std::uint32_t, kScope>&>(word);
    if constexpr (kWay == Way::closing_load) {
      return poll_relaxed(atomic, value, patience) && atomic.load(acquire) == value;
    } else {
#if defined(__CUDA_ARCH__)
      constexpr std::uint32_t kMostPolls = 1u << 22;  // some seconds
#else
      constexpr std::uint32_t kMostPolls = 1u << 30;
#endif
      constexpr auto kOrder = kWay == Way::seq_cst ? Order::seq_cst : Order::acquire;
      for (std::uint32_t polls = 0; polls < kMostPolls; ++polls) {
        if (atomic.load(OrderTag<kOrder>{}) == value) return true;
      }
      return false;
    }
  }
}

/// One side of a ping-pong over the words `there` and `back`. Stores the number of rounds that were
/// right.
template <Scope kScope, Way kWay>
ATTACCA_HD void play_side(const PingPong& a, unsigned side, std::uint32_t& there,
                          std::uint32_t& back) {
  std::uint32_t& mine = side == 0 ? there : back;
  std::uint32_t& theirs = side == 0 ? back : there;
  std::uint32_t& my_data = a.lines[PingPong::data_there + side].word;
  const std::uint32_t& their_data = a.lines[PingPong::data_back - side].word;
  std::uint32_t right = 0;
  for (std::uint32_t round = 1; round <= a.rounds; ++round) {
    if (side == 1 && !await<kScope, kWay>(theirs, round, a.patience)) break;
    if (side == 1) right += !a.has_data || their_data == round;
    if (a.has_data) my_data = round;
    announce<kScope, kWay>(mine, round);
    if (side == 0 && !await<kScope, kWay>(theirs, round, a.patience)) break;
    if (side == 0) right += !a.has_data || their_data == round;
  }
  a.lines[PingPong::done_0 + side].word = right;
}

#if ATTACCA_WITH_CUDA
/// In shared memory there are only Signals. On `host_device` the kernel is side 1.
cudaError_t launch(Route route, Way way, const PingPong& args, cudaStream_t stream);
/// At gpu or at system scope.
cudaError_t launch(Scope scope, const Publish& args, cudaStream_t stream);
/// The ways bare, signal and fenced.
cudaError_t launch(Way way, const Broadcast& args, cudaStream_t stream);
#endif

}  // namespace bench::signals
