// blocks.hpp: how a kernel's work is divided among its blocks on the host. CUDA grids are chosen by
// each kernel.
#pragma once

#include <attacca/grid.hpp>
#include <cstdint>

namespace attacca::kernels {

/// A grid for `work` units in which no block has less than `least`. A dispatch costs some
/// microseconds, so little work stays on one thread. Much work is cut into four parts per thread,
/// which evens out their times.
Grid host_grid(std::uint64_t work, std::uint64_t least);

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
