// attention_tile.hpp: the inner loop of attention on the host. A "line" is one token's query head.
// It visits the keys and values of its slot in order, in tiles of 16 positions, with an online
// softmax. A line's result is the same bits whichever lines are computed with it.
#pragma once

#include <cstdint>

namespace attacca::kernels::host {

inline constexpr unsigned kTile = 16;      // positions; divides every page size
inline constexpr unsigned kMaxLines = 32;  // of an item
inline constexpr unsigned kMaxHeadSize = 256;

/// The state of up to 32 lines.
struct Lines {
  alignas(64) float query[kMaxLines * kMaxHeadSize];  // [lines, head_size], times the scale
  alignas(64) float sum[kMaxLines * kMaxHeadSize];    // [lines, head_size]: weighted values
  alignas(64) float weight[kMaxLines][kTile];  // of the current tile; before that, its scores
  float max[kMaxLines];
  float total[kMaxLines];   // of all weights
  float factor[kMaxLines];  // rescales the earlier sums to the new maximum
};

/// The part of a tile that some lines see.
struct Tile {
  const float* keys;    // [kTile, head_size]
  const float* values;  // [kTile, head_size]
  unsigned first;
  unsigned last;  // past the last
};

/// Runs the lines that `index` lists over a tile. REQUIRES: `head_size` is a multiple of 8.
void attend(Lines& lines, const unsigned* index, unsigned count, const Tile& tile,
            unsigned head_size);

}  // namespace attacca::kernels::host
