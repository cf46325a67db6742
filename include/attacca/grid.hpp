// grid.hpp: the shape of a kernel launch.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace attacca {

struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;

  ATTACCA_HD constexpr std::uint64_t count() const { return static_cast<std::uint64_t>(x) * y * z; }
  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

namespace detail {
/// Throws BadArgument.
[[noreturn]] void refuse_covering(std::uint64_t items, unsigned threads);
}  // namespace detail

/// Blocks of threads. `Grid{}` is one thread.
struct Grid {
  Dim3 blocks;
  Dim3 threads;
  unsigned shared_bytes = 0;  // dynamic shared memory per block; host bodies have none

  static constexpr unsigned kMaxBlocks = 0x7fffffffu;  // in x

  /// Enough blocks of `threads` threads for `items` items, at least one. Where that is more blocks
  /// than a grid has, the host throws BadArgument; device code cannot, and gets the largest grid.
  ATTACCA_HD static constexpr Grid covering(std::uint64_t items, unsigned threads = 256) {
    std::uint64_t blocks = threads == 0 ? kMaxBlocks + std::uint64_t{1}
                                        : items / threads + (items % threads != 0 ? 1 : 0);
    if (blocks > kMaxBlocks) {
#if defined(__CUDA_ARCH__)
      blocks = kMaxBlocks;
#else
      detail::refuse_covering(items, threads);
#endif
    }
    return Grid{Dim3{blocks == 0 ? 1u : static_cast<unsigned>(blocks)}, Dim3{threads}};
  }
  friend constexpr bool operator==(const Grid&, const Grid&) = default;
};

}  // namespace attacca
