// blocks.hpp: how a kernel's work is divided among its blocks on the host. CUDA grids are chosen by
// each kernel.
#pragma once

#include <algorithm>
#include <attacca/grid.hpp>
#include <cstdint>
#include <thread>

namespace attacca::kernels {

/// A grid for `work` units in which no block has less than `least`. A dispatch costs some
/// microseconds, so little work stays on one thread. Much work is cut into four parts per thread,
/// which evens out their times.
inline Grid host_grid(std::uint64_t work, std::uint64_t least) {
  const std::uint64_t most = 4 * std::max(1u, std::thread::hardware_concurrency());
  return Grid::covering(std::clamp<std::uint64_t>(work / least, 1, most), 1);
}

/// The part of `count` rows that a block computes.
struct RowRange {
  std::uint32_t first;
  std::uint32_t last;  // past the last
};
inline RowRange rows_of_block(std::uint32_t count, unsigned block, unsigned blocks) {
  const auto cut = [&](std::uint64_t at) {
    return static_cast<std::uint32_t>(at * count / blocks);
  };
  return {cut(block), cut(block + 1)};
}

}  // namespace attacca::kernels
