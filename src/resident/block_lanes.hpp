// block_lanes.hpp: the threads of a block as the policy's lanes; on the host a block has one.
#pragma once

#include <attacca/thread.hpp>
#include <cstring>

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

}  // namespace attacca::resident
