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

/// Blocks of threads. `Grid{}` is one thread.
struct Grid {
  Dim3 blocks;
  Dim3 threads;
  unsigned shared_bytes = 0;  // dynamic shared memory per block; host bodies have none

  /// Enough blocks of `threads` threads for `items` items, at least one.
  ATTACCA_HD static constexpr Grid covering(std::uint64_t items, unsigned threads = 256) {
    const std::uint64_t blocks = (items + threads - 1) / threads;
    return Grid{Dim3{blocks == 0 ? 1u : static_cast<unsigned>(blocks)}, Dim3{threads}};
  }
  friend constexpr bool operator==(const Grid&, const Grid&) = default;
};

}  // namespace attacca
