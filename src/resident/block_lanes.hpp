// block_lanes.hpp: the threads of a block as the policy's lanes; on the host a block has one.
#pragma once

#include <attacca/thread.hpp>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace attacca::resident {

/// REQUIRES: a block of whole warps, in one dimension.
class BlockLanes {
 public:
  ATTACCA_HD explicit BlockLanes(const Thread& t) : index_(t.thread.x), count_(t.threads.x) {}

  ATTACCA_HD std::uint32_t index() const { return index_; }
  ATTACCA_HD std::uint32_t count() const { return count_; }
  ATTACCA_HD void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

  /// Whether some lane says so; also a barrier.
  ATTACCA_HD bool any(bool value) const {
#if defined(__CUDA_ARCH__)
    return __syncthreads_or(value) != 0;
#else
    return value;
#endif
  }

  /// See schedule::OneLane. T is made of 32-bit words, and is zero by default.
  template <class T>
  ATTACCA_HD T sum_before(const T& value, T& all) const {
#if defined(__CUDA_ARCH__)
    const unsigned lane = index_ % 32, warp = index_ / 32;
    T up_to_here = value;
    for (unsigned distance = 1; distance < 32; distance *= 2) {
      const T other = from_below(up_to_here, distance);
      if (lane >= distance) up_to_here = other + up_to_here;
    }
    __shared__ unsigned sums[32][kWords<T>];
    if (lane == 31) std::memcpy(sums[warp], &up_to_here, sizeof(T));
    __syncthreads();
    T before{};
    all = {};
    for (unsigned at = 0; at < count_ / 32; ++at) {
      if (at == warp) before = all;
      T sum;
      std::memcpy(&sum, sums[at], sizeof(T));
      all = all + sum;
    }
    __syncthreads();  // the next call writes `sums`
    const T others = from_below(up_to_here, 1);
    return lane == 0 ? before : before + others;
#else
    all = value;
    return {};
#endif
  }

 private:
  template <class T>
  static constexpr unsigned kWords = sizeof(T) / sizeof(unsigned);

#if defined(__CUDACC__)
  /// The value of the lane `distance` below, in the same warp.
  template <class T>
  __device__ static T from_below(const T& value, unsigned distance) {
    unsigned words[kWords<T>];
    std::memcpy(words, &value, sizeof(T));
    for (unsigned& word : words) word = __shfl_up_sync(0xffffffffu, word, distance);
    T below;
    std::memcpy(&below, words, sizeof(T));
    return below;
  }
#endif

  std::uint32_t index_;
  std::uint32_t count_;
};

/// Brings `count` items into L2 which are read later, behind other reads.
template <class T>
ATTACCA_HD void prefetch([[maybe_unused]] const BlockLanes& lanes, [[maybe_unused]] const T* items,
                         [[maybe_unused]] std::uint32_t count) {
#if defined(__CUDA_ARCH__)
  static_assert(sizeof(T) <= 128);
  constexpr std::uint32_t kPerLine = 128 / sizeof(T);
  for (std::uint32_t at = lanes.index() * kPerLine; at < count; at += lanes.count() * kPerLine)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(items + at));
#endif
}

/// Writes the items of the first `count` lanes to memory across the bus: `place(n)` is where the
/// nth goes. A lane alone would write its item 8 bytes at a time, each a trip of its own; here
/// lanes write whole lines together. REQUIRES: T is made of 64-bit words; at most kMostLanes lanes,
/// which all make the call.
inline constexpr std::uint32_t kMostLanes = 256;
template <class T, class Place>
ATTACCA_HD void write_together(const BlockLanes& lanes, const T& own, std::uint32_t count,
                               const Place& place) {
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0 && std::is_trivially_copyable_v<T>);
#if defined(__CUDA_ARCH__)
  constexpr std::uint32_t kWords = sizeof(T) / sizeof(std::uint64_t);
  __shared__ std::uint64_t words[kMostLanes * kWords];
  *reinterpret_cast<T*>(words + lanes.index() * kWords) = own;
  lanes.sync();
  for (std::uint32_t at = lanes.index(); at < count * kWords; at += lanes.count())
    reinterpret_cast<std::uint64_t*>(&place(at / kWords))[at % kWords] = words[at];
  lanes.sync();  // the next call writes `words`
#else
  if (lanes.index() < count) place(lanes.index()) = own;
#endif
}

/// An array that lanes read together, an item each, so that they wait for several arrays at once.
/// REQUIRES: no more items than a block has lanes; all lanes make the same calls.
template <class T>
class Fetch {
 public:
  ATTACCA_HD Fetch(const BlockLanes& lanes, const T* from, std::uint32_t count)
      : from_(from), count_(count) {
#if defined(__CUDA_ARCH__)
    if (lanes.index() < count) item_ = from[lanes.index()];
#else
    (void)lanes;
#endif
  }
  ATTACCA_HD void put(const BlockLanes& lanes, T* to) const {
#if defined(__CUDA_ARCH__)
    if (lanes.index() < count_) to[lanes.index()] = item_;
#else
    (void)lanes;
    for (std::uint32_t at = 0; at < count_; ++at) to[at] = from_[at];
#endif
  }

 private:
  const T* from_;
  std::uint32_t count_;
  T item_{};
};

/// A block's own copy of a small struct, in shared memory: its fields are read again after each
/// barrier, and after a fence that takes a trip to L2, most of a microsecond while a step runs. On
/// the host, where a block is one thread, it is the struct itself. REQUIRES: T is made of 64-bit
/// words; one of a type in a kernel; all lanes make the same calls; nobody else uses the original.
template <class T>
class StagedCopy {
 public:
  ATTACCA_HD StagedCopy(const BlockLanes& lanes, T* original) : original_(original) {
#if defined(__CUDA_ARCH__)
    __shared__ std::uint64_t words[kWords];
    copy_words(lanes, words, reinterpret_cast<const std::uint64_t*>(original));
    lanes.sync();
    copy_ = reinterpret_cast<T*>(words);
#else
    (void)lanes;
    copy_ = original;
#endif
  }
  ATTACCA_HD T* get() const { return copy_; }
  /// Writes the copy back.
  ATTACCA_HD void write_back(const BlockLanes& lanes) const {
#if defined(__CUDA_ARCH__)
    lanes.sync();
    copy_words(lanes, reinterpret_cast<std::uint64_t*>(original_),
               reinterpret_cast<const std::uint64_t*>(copy_));
#else
    (void)lanes;
#endif
  }

 private:
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0 && std::is_trivially_copyable_v<T>);
  static constexpr std::uint32_t kWords = sizeof(T) / sizeof(std::uint64_t);

  ATTACCA_HD static void copy_words(const BlockLanes& lanes, std::uint64_t* to,
                                    const std::uint64_t* from) {
    for (std::uint32_t at = lanes.index(); at < kWords; at += lanes.count()) to[at] = from[at];
  }

  T* original_;
  T* copy_;
};

}  // namespace attacca::resident
