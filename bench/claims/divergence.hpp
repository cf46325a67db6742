// divergence.hpp: kernels whose threads take different paths through the code, and sums over the
// lanes of a warp; see divergence.cpp. Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include <cuda_runtime_api.h>
#include <attacca/target.hpp>

namespace bench::divergence {

inline constexpr unsigned kMostPaths = 32;

/// Which threads take a path together: the path's number is that of the lane, warp or block, modulo
/// `paths`.
enum class Grain { lane, warp, block };

/// One turn of path `path`. Paths differ only in their constants, so each costs the same.
ATTACCA_HD constexpr unsigned factor_of(unsigned path) { return 1'664'525u + 8 * path; }
ATTACCA_HD constexpr unsigned summand_of(unsigned path) { return 1'013'904'223u + 2 * path; }
inline constexpr unsigned kStepsPerTurn = 16;

/// Every thread does `turns` turns of its path, starting from 1, and stores the result.
struct Walk {
  unsigned* out;  // [blocks * threads]
  Grain grain;
  unsigned paths;  // 1 to kMostPaths
  unsigned turns;
  unsigned blocks;
  unsigned threads;
};
cudaError_t launch_walk(const Walk& walk, cudaStream_t stream);

/// Ways for the lanes of a warp to add up a value of each.
enum class Sum {
  shuffle,          // __shfl_xor_sync over 32 lanes
  redux,            // __reduce_add_sync over 32 lanes
  tile_32,          // shfl_xor of a cooperative group's tile
  tile_16,          // two tiles, each with a sum of its own
  tile_8,           // four
  tile_4,           // eight
  halves_masked,    // __shfl_xor_sync with the mask of the lane's half
  halves_branched,  // the same, each half inside a branch of its own
  shared,           // a tree in shared memory, 32 lanes
};
inline constexpr unsigned kSums = 9;
constexpr unsigned lanes_of(Sum sum) {
  switch (sum) {
    case Sum::tile_16:
    case Sum::halves_masked:
    case Sum::halves_branched:
      return 16;
    case Sum::tile_8:
      return 8;
    case Sum::tile_4:
      return 4;
    default:
      return 32;
  }
}

/// Every lane starts with its number; `rounds` times the lanes add up what they have, and each
/// lane goes on with the sum xor its number.
struct Rounds {
  unsigned* out;  // [blocks * threads]
  Sum sum;
  unsigned rounds;
  unsigned blocks;
  unsigned threads;  // a multiple of 32, at most 1024
};
cudaError_t launch_sum(const Rounds& rounds, cudaStream_t stream);

}  // namespace bench::divergence
