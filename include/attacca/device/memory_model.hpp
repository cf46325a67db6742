// memory_model.hpp: the parts that the structures of this folder are made of: atomics, plain
// values, fences, a clock and a back-off. They take it as a template parameter, so that tests can
// replace it by a checker of relaxed memory models.
#pragma once

#include <attacca/device/atomic.hpp>
#include <chrono>
#include <thread>

namespace attacca::device {

/// A value that is not atomic: one thread writes it, and others read it after a release and an
/// acquire of something else.
template <class T>
struct Plain {
  T value;
  ATTACCA_HD T read() const { return value; }
  ATTACCA_HD void write(const T& to) { value = to; }
};

namespace detail {

/// Nanoseconds of a clock that all threads of this side share.
ATTACCA_HD inline std::uint64_t now_nanoseconds() {
#if defined(__CUDA_ARCH__)
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
#endif
}

/// Pauses between polls: none at first, then growing.
class NativeBackoff {
 public:
  ATTACCA_HD void pause() {
    if (++polls_ < kEager) return;
#if defined(__CUDA_ARCH__)
    __nanosleep(pause_);
    if (pause_ < kLongestPause) pause_ *= 2;
#else
    std::this_thread::yield();
#endif
  }
  /// Whether to read the clock now: seldom, because it costs more than a poll.
  ATTACCA_HD bool is_time_to_look() const { return polls_ % kPollsPerLook == 0; }

 private:
  static constexpr unsigned kEager = 16;
  static constexpr unsigned kPollsPerLook = 32;
  static constexpr unsigned kLongestPause = 256;  // nanoseconds
  unsigned polls_ = 0;
  unsigned pause_ = 16;
};

}  // namespace detail

struct NativeMemory {
  template <class T, Scope kScope>
  using Atomic = device::Atomic<T, kScope>;
  template <class T>
  using Plain = device::Plain<T>;

  using Backoff = detail::NativeBackoff;
  ATTACCA_HD static std::uint64_t now() { return detail::now_nanoseconds(); }

  /// Whether the calling thread should read host memory now, which takes one or two microseconds.
  /// On a GPU, true for one of all threads with the same `last` every 100 us. On the host, always.
  template <class Word>
  ATTACCA_HD static bool is_turn_to_look_across([[maybe_unused]] Word& last) {
#if defined(__CUDA_ARCH__)
    constexpr std::int64_t kEvery = 100'000;
    const std::uint64_t now = detail::now_nanoseconds();
    std::uint64_t seen = last.load(relaxed);
    return static_cast<std::int64_t>(now - seen) >= kEvery &&
           last.compare_exchange(seen, now, relaxed, relaxed);
#else
    return true;
#endif
  }

  template <Scope kScope, Order kOrder>
  ATTACCA_HD static void fence(OrderTag<kOrder> order) {
    device::fence<kScope>(order);
  }
};

}  // namespace attacca::device
