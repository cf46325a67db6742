// streamed_tiles.hpp: which rows of weights each block of streamed_linear.cuh multiplies. For host
// and device, so that a test can show that the blocks' tiles cover a matrix exactly once.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels::streamed {

/// The run of tiles that a block computes.
struct TileRange {
  std::uint32_t first;
  std::uint32_t count;
};
/// Outputs whose squares are summed together stay in one block. Other pairs of tiles are separated
/// where that makes the largest run shorter. `rows`: of the weights; a gate and its partner count
/// once.
template <unsigned kTileRows>
ATTACCA_HD constexpr TileRange tile_range(std::uint32_t rows, Epilogue epilogue,
                                          std::uint32_t block, std::uint32_t blocks) {
  constexpr unsigned kTilesPerPart = Residual::kPart / kTileRows;
  const std::uint32_t parts =
      rows / (epilogue == Epilogue::gate ? Residual::kPart / 2 : Residual::kPart);
  std::uint32_t each = parts / blocks;
  std::uint32_t more = parts - each * blocks;  // blocks that have one part more
  std::uint32_t width = kTilesPerPart;
  if (kTilesPerPart == 2 && epilogue != Epilogue::add && 2 * more <= blocks) {
    each *= 2;
    more *= 2;
    width = 1;
  }
  return {width * (block * each + (block < more ? block : more)),
          width * (each + (block < more ? 1 : 0))};
}
/// Blocks that have tiles: the first ones, since these get the more.
template <unsigned kTileRows>
ATTACCA_HD constexpr std::uint32_t blocks_with_tiles(std::uint32_t rows, Epilogue epilogue,
                                                     std::uint32_t blocks) {
  const TileRange last = tile_range<kTileRows>(rows, epilogue, blocks - 1, blocks);
  if (last.count != 0) return blocks;
  // Each block has one tile, or one part, or none.
  return last.first / tile_range<kTileRows>(rows, epilogue, 0, blocks).count;
}

}  // namespace attacca::kernels::streamed
