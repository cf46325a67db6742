// sm90_prompt_tiles.cuh: the plan of sm90_prompt_attention.cuh: the long runs of a step and their
// tiles. Every block finds the runs for itself. Tiles are dealt to blocks by their index alone, so
// that the warpgroups of a block walk through them without talking to each other: those that see
// most come first, and every other round of the deal goes backwards.
#pragma once

#include "kernels/attention/attention_ptx.cuh"
#include "kernels/attention/prompt_runs.hpp"
#include "kernels/attention/sm90_prompt_attention.hpp"

namespace attacca::kernels::prompts {

/// Neighbouring rows of a run, for one kv head.
struct Tile {
  std::uint32_t row;   // the first
  std::uint32_t rows;  // at most kTileLines / group
  std::uint32_t slot;
  std::uint32_t position;  // of the first row; the others follow
  std::uint32_t kv_head;

  __device__ std::uint32_t last() const { return position + rows - 1; }
};

/// Lies in shared memory.
class Plan {
 public:
  /// Words that `make` needs besides.
  static constexpr std::uint32_t kMostRows = kMostRuns * kLongRun;
  static constexpr std::uint32_t kScratchWords = kMostRows / 16;

  /// Finds the long runs. All threads of the block call. Ends with a barrier.
  __device__ void make(const MixedAttentionArgs& a, std::uint32_t* scratch) {
    const std::uint32_t rows = min(__ldcg(a.rows.count), a.rows.capacity);
    std::uint32_t* begins = scratch;
    std::uint32_t* ends = scratch + kMostRows / 32;
    mark(a.slots, rows, begins, ends);
    __syncthreads();
    if (threadIdx.x < 32) list(a, (rows + 31) / 32, begins, ends);
    __syncthreads();
  }

  __device__ std::uint32_t tiles() const { return tiles_; }

 private:
  friend class Deal;
  struct Run {
    std::uint32_t row;
    std::uint32_t rows;
    std::uint32_t slot;
    std::uint32_t position;
    std::uint32_t first_tile;
  };

  /// Sets a bit for each row where a long run begins, and where one ends. The rows of a slot are
  /// neighbours, so a run is long if the row 63 further on is in it.
  __device__ static void mark(const std::int32_t* slots, std::uint32_t rows, std::uint32_t* begins,
                              std::uint32_t* ends) {
    constexpr std::uint32_t kFar = kLongRun - 1;
    for (std::uint32_t first = 0; first < rows; first += kThreads) {
      const std::uint32_t row = first + threadIdx.x;
      const std::uint32_t there = min(row, rows - 1);
      const std::int32_t mine = __ldcg(slots + there);  // past L1, which may hold an earlier step's
      const std::int32_t before = __ldcg(slots + (there == 0 ? 0 : there - 1));
      const std::int32_t after = __ldcg(slots + min(there + 1, rows - 1));
      const std::int32_t ahead = __ldcg(slots + min(there + kFar, rows - 1));
      const std::int32_t behind = __ldcg(slots + (there < kFar ? 0 : there - kFar));
      const bool begins_here = row + kFar < rows && ahead == mine && (row == 0 || before != mine);
      const bool ends_here =
          row < rows && row >= kFar && behind == mine && (row + 1 == rows || after != mine);
      const std::uint32_t begin_bits = __ballot_sync(~0u, begins_here);
      const std::uint32_t end_bits = __ballot_sync(~0u, ends_here);
      if (threadIdx.x % 32 == 0 && row < rows) {
        begins[row / 32] = begin_bits;
        ends[row / 32] = end_bits;
      }
    }
  }
  /// One warp lists the runs and counts their tiles.
  __device__ void list(const MixedAttentionArgs& a, std::uint32_t words,
                       const std::uint32_t* begins, const std::uint32_t* ends) {
    const unsigned lane = threadIdx.x;
    const std::uint32_t runs = each_bit(
        begins, words, [&](std::uint32_t run, std::uint32_t row) { runs_[run].row = row; });
    each_bit(ends, words, [&](std::uint32_t run, std::uint32_t row) { runs_[run].rows = row + 1; });
    __syncwarp();
    const std::uint32_t tile_rows = kTileLines / (a.heads / a.kv.kv_heads);
    std::uint32_t all = 0;
    for (std::uint32_t first = 0; first < runs; first += 32) {
      std::uint32_t tiles = 0;
      if (first + lane < runs) {
        Run& run = runs_[first + lane];
        run.rows -= run.row;
        run.slot = static_cast<std::uint32_t>(__ldcg(a.slots + run.row));
        run.position = static_cast<std::uint32_t>(__ldcg(a.positions + run.row));
        tiles = ((run.position + run.rows - 1) / tile_rows - run.position / tile_rows + 1) *
                a.kv.kv_heads;
      }
      const std::uint32_t sum = sum_up(tiles);
      if (first + lane < runs) runs_[first + lane].first_tile = all + sum - tiles;
      all += __shfl_sync(~0u, sum, 31);
    }
    if (lane == 0) {
      run_count_ = runs;
      tiles_ = all;
    }
  }
  /// Calls use(rank, index) for each set bit, and returns how many there are.
  template <class Use>
  __device__ static std::uint32_t each_bit(const std::uint32_t* bits, std::uint32_t words,
                                           const Use& use) {
    const std::uint32_t each = (words + 31) / 32;
    const std::uint32_t from = min(threadIdx.x * each, words);
    const std::uint32_t to = min(from + each, words);
    std::uint32_t count = 0;
    for (std::uint32_t word = from; word < to; ++word)
      for (std::uint32_t left = bits[word]; left != 0; left &= left - 1) ++count;
    const std::uint32_t sum = sum_up(count);
    std::uint32_t rank = sum - count;
    for (std::uint32_t word = from; word < to; ++word)
      for (std::uint32_t left = bits[word]; left != 0; left &= left - 1)
        use(rank++, word * 32 + attending::lowest_bit(left));
    return __shfl_sync(~0u, sum, 31);
  }
  /// The sum over this lane and all earlier ones.
  __device__ static std::uint32_t sum_up(std::uint32_t mine) {
    std::uint32_t sum = mine;
    for (unsigned step = 1; step < 32; step *= 2) {
      const std::uint32_t before = __shfl_up_sync(~0u, sum, step);
      if (threadIdx.x % 32 >= step) sum += before;
    }
    return sum;
  }

  std::uint32_t run_count_;
  std::uint32_t tiles_;
  Run runs_[kMostRuns];
};

/// The tiles of a block, in its order.
class Deal {
 public:
  __device__ Deal(const Plan& plan, std::uint32_t kv_heads, std::uint32_t group)
      : plan_(plan), kv_heads_(kv_heads), tile_rows_(kTileLines / group) {}

  /// Finds the next tile; false if there is none.
  __device__ bool next(Tile& tile) {
    const std::uint32_t place = round_ % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const std::uint32_t index = round_ * gridDim.x + place;
    if (index >= plan_.tiles_) return false;
    ++round_;
    while (run_ + 1 < plan_.run_count_ && plan_.runs_[run_ + 1].first_tile <= index) ++run_;
    const Plan::Run& run = plan_.runs_[run_];
    const std::uint32_t end = run.position + run.rows;
    const std::uint32_t from_last = (index - run.first_tile) / kv_heads_;
    const std::uint32_t begin = ((end - 1) / tile_rows_ - from_last) * tile_rows_;
    tile.position = begin < run.position ? run.position : begin;
    tile.row = run.row + (tile.position - run.position);
    tile.rows = min(begin + tile_rows_, end) - tile.position;
    tile.slot = run.slot;
    tile.kv_head = (index - run.first_tile) % kv_heads_;
    return true;
  }

 private:
  const Plan& plan_;
  std::uint32_t kv_heads_;
  std::uint32_t tile_rows_;
  std::uint32_t round_ = 0;
  std::uint32_t run_ = 0;
};

}  // namespace attacca::kernels::prompts
