// cuda_threads.hpp: runs the body of a CUDA kernel on the host, one block after another, each
// thread of a block as a fiber. It has what the attention kernels use, and no more. What depends on
// real concurrency, races above all, is left to the GPU and compute-sanitizer.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#define __device__
#define __shared__ static

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint2 {
  std::uint32_t x, y;
};
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};

namespace attacca::test::emulated {

struct Index {
  unsigned x;
};
/// What a lane brings to a meeting of its warp.
using Words = std::array<std::uint64_t, 3>;

/// The block that runs now.
class Block {
 public:
  static Block& now() {
    static Block block;
    return block;
  }

  void run(unsigned blocks, unsigned threads, const std::function<void()>& body) {
    body_ = &body;
    grid = {blocks};
    size = {threads};
    fibers_.resize(threads);
    for (unsigned index = 0; index < blocks; ++index) {
      block = {index};
      warps_.assign(threads / 32, {});
      barriers_ = {};
      for (unsigned i = 0; i < threads; ++i) start(fibers_[i], i);
      while (turn()) {
      }
    }
  }

  unsigned thread() const { return current_->thread; }
  Index thread_index() const { return {current_->thread}; }
  /// Meets the other lanes of the warp; returns what all of them brought.
  const std::array<Words, 32>& meet(const Words& mine) {
    Warp& warp = warps_[thread() / 32];
    warp.in[thread() % 32] = mine;
    const std::uint64_t meeting = warp.meetings;
    if (++warp.arrived == 32) {
      warp.arrived = 0;
      warp.out = warp.in;
      ++warp.meetings;
    }
    while (warp.meetings == meeting) yield();
    return warp.out;
  }
  void synchronize() { synchronize(0, size.x); }
  /// A barrier of some threads, and one that a thread does not wait at.
  void synchronize(unsigned barrier, unsigned threads) {
    const std::uint64_t meeting = barriers_[barrier].meetings;
    arrive(barrier, threads);
    wait([&] { return barriers_[barrier].meetings != meeting; });
  }
  void arrive(unsigned barrier, unsigned threads) {
    Barrier& at = barriers_[barrier];
    if (++at.arrived < threads) return;
    at.arrived = 0;
    ++at.meetings;
  }
  /// Lets other threads go on until `is_done`.
  template <class IsDone>
  void wait(const IsDone& is_done) {
    while (!is_done()) yield();
  }

  Index grid{}, block{}, size{};
  const void* shared_memory = nullptr;  // where addresses of shared memory begin

 private:
  static constexpr std::size_t kStackBytes = 256 << 10;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    unsigned thread;
    bool is_done;
  };
  struct Warp {
    unsigned arrived = 0;
    std::uint64_t meetings = 0;
    std::array<Words, 32> in;
    std::array<Words, 32> out;
  };

  struct Barrier {
    unsigned arrived = 0;
    std::uint64_t meetings = 0;
  };

  static void enter() {
    (*now().body_)();
    now().current_->is_done = true;
    now().yield();
  }
  void start(Fiber& fiber, unsigned thread) {
    if (!fiber.stack) fiber.stack = std::make_unique<char[]>(kStackBytes);
    fiber.thread = thread;
    fiber.is_done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, enter, 0);
  }
  /// Lets each thread go on until it waits. Returns whether any was not done.
  bool turn() {
    bool is_any_left = false;
    for (Fiber& fiber : fibers_) {
      if (fiber.is_done) continue;
      is_any_left = true;
      current_ = &fiber;
      swapcontext(&main_, &fiber.context);
    }
    return is_any_left;
  }
  void yield() { swapcontext(&current_->context, &main_); }

  const std::function<void()>* body_ = nullptr;
  ucontext_t main_;
  std::vector<Fiber> fibers_;
  Fiber* current_ = nullptr;
  std::vector<Warp> warps_;
  std::array<Barrier, 16> barriers_;
};

/// What a thread has started, in groups. It is done as late as it may be, when the thread waits:
/// whoever uses results too early, or changes operands too early, gets something wrong.
class Later {
 public:
  static Later& copies() { return of_thread<0>(); }
  static Later& products() { return of_thread<1>(); }

  void add(std::function<void()> task) { groups_.back().push_back(std::move(task)); }
  void commit() { groups_.emplace_back(); }
  /// Does all but the newest groups that were committed.
  void wait(unsigned newest) {
    while (groups_.size() > newest + 1) {
      for (const auto& task : groups_.front()) task();
      groups_.pop_front();
    }
  }

 private:
  template <int kKind>
  static Later& of_thread() {
    static std::array<Later, 1024> all;
    return all[Block::now().thread()];
  }

  std::deque<std::vector<std::function<void()>>> groups_{1};  // the last one is not committed yet
};

template <class T>
std::uint64_t word_of(T value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T value_of(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
T of_lane(T value, unsigned lane) {
  return value_of<T>(Block::now().meet({word_of(value)})[lane][0]);
}

}  // namespace attacca::test::emulated

#define threadIdx (attacca::test::emulated::Block::now().thread_index())
#define blockIdx (attacca::test::emulated::Block::now().block)
#define gridDim (attacca::test::emulated::Block::now().grid)
#define blockDim (attacca::test::emulated::Block::now().size)

inline void __syncthreads() { attacca::test::emulated::Block::now().synchronize(); }
inline void __syncwarp() { attacca::test::emulated::Block::now().meet({}); }
template <class T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return attacca::test::emulated::of_lane(value, lane % 32);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return attacca::test::emulated::of_lane(value, (threadIdx.x % 32) ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return attacca::test::emulated::of_lane(value, lane >= distance ? lane - distance : lane);
}
inline unsigned __ballot_sync(unsigned, bool is_true) {
  const auto& all = attacca::test::emulated::Block::now().meet({is_true});
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane) bits |= static_cast<unsigned>(all[lane][0]) << lane;
  return bits;
}
inline bool __any_sync(unsigned mask, bool is_true) { return __ballot_sync(mask, is_true) != 0; }
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline std::size_t __cvta_generic_to_shared(const void* address) {
  return static_cast<std::size_t>(
      static_cast<const char*>(address) -
      static_cast<const char*>(attacca::test::emulated::Block::now().shared_memory));
}
inline float __uint_as_float(std::uint32_t bits) {
  return attacca::test::emulated::value_of<float>(bits);
}
inline std::uint32_t __byte_perm(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline void sincospif(float x, float* sine, float* cosine) {
  *sine = std::sin(x * 3.14159265f);
  *cosine = std::cos(x * 3.14159265f);
}
inline std::uint32_t min(std::uint32_t a, std::uint32_t b) { return std::min(a, b); }
inline std::uint32_t max(std::uint32_t a, std::uint32_t b) { return std::max(a, b); }
