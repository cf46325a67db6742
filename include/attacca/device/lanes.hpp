// lanes.hpp: the threads of a warp that arrive at a call together. Nothing in this folder assumes
// that a warp has converged: a set of lanes is any that arrived, even a single one. On the host a
// thread is always alone.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>
#include <cstring>

namespace attacca::device {

class ActiveLanes {
 public:
  /// The lanes that are at this call together. They must make the calls below together.
  ATTACCA_HD static ActiveLanes here() {
#if defined(__CUDA_ARCH__)
    return ActiveLanes(__activemask());
#else
    return ActiveLanes(1);
#endif
  }

  ATTACCA_HD unsigned count() const {
#if defined(__CUDA_ARCH__)
    return static_cast<unsigned>(__popc(mask_));
#else
    return 1;
#endif
  }
  /// The place of this lane among them, from 0.
  ATTACCA_HD unsigned rank() const {
#if defined(__CUDA_ARCH__)
    unsigned below;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    return static_cast<unsigned>(__popc(mask_ & below));
#else
    return 0;
#endif
  }
  ATTACCA_HD bool is_leader() const { return rank() == 0; }

  /// The leader's value. T is an integer of 4 or 8 bytes.
  template <class T>
  ATTACCA_HD T from_leader(T value) const {
#if defined(__CUDA_ARCH__)
    return __shfl_sync(mask_, value, __ffs(static_cast<int>(mask_)) - 1);
#else
    return value;
#endif
  }
  ATTACCA_HD void sync() const {
#if defined(__CUDA_ARCH__)
    __syncwarp(mask_);
#endif
  }

 private:
  ATTACCA_HD explicit ActiveLanes(unsigned mask) : mask_(mask) {}
  unsigned mask_;
};

/// Whether `value` is true in all 32 lanes of a warp. All call; on the host there is one.
ATTACCA_HD inline bool all_lanes(bool value) {
#if defined(__CUDA_ARCH__)
  return __all_sync(0xffffffffu, value) != 0;
#else
  return value;
#endif
}

/// The value of lane `lane`, of any plain type. All 32 lanes of a warp call; the host has one.
template <class T>
ATTACCA_HD T from_lane(const T& value, [[maybe_unused]] unsigned lane) {
#if defined(__CUDA_ARCH__)
  constexpr unsigned kWords = (sizeof(T) + 3) / 4;
  unsigned words[kWords] = {};
  std::memcpy(words, &value, sizeof value);
  for (unsigned at = 0; at < kWords; ++at)
    words[at] = __shfl_sync(0xffffffffu, words[at], static_cast<int>(lane));
  T result;
  std::memcpy(&result, words, sizeof result);
  return result;
#else
  return value;
#endif
}

}  // namespace attacca::device
