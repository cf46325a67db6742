// attention_tiles.cuh: how a row's attention is cut into tiles, by its length or at fixed
// positions, and the plan of a decode step's tiles. Every block counts the tiles for itself, then
// pulls them from one counter. The plan of mixed steps is in mixed_attention.cuh.
//
// Counters need no clearing between launches: they count up to a known number and wrap to zero.
#pragma once

#include "kernels/activations.hpp"
#include "kernels/attention/attention_ptx.cuh"
#include "kernels/attention/attention_splits.hpp"
#include "kernels/attention/paged_kv.hpp"

namespace attacca::kernels::attending {

/// The threads that compute a tile together: all of a block. A kernel whose blocks have several
/// teams has a type like this of its own.
struct WholeBlock {
  static constexpr unsigned kTeams = 1;
  __device__ static unsigned index() { return 0; }  // of the team in its block
  __device__ static unsigned thread() { return threadIdx.x; }
  __device__ static void sync() { __syncthreads(); }
};

/// One split of one row, for one part of one kv head's heads.
struct Tile {
  std::uint32_t row;
  std::uint32_t slot;
  std::uint32_t position;  // of the row itself
  std::uint32_t first;     // first position that the row sees
  std::uint32_t begin;  // first position of the split: a multiple of 16, at most 15 before `first`
  std::uint32_t end;    // past the split, at most `position`: the last split adds that one
  std::uint32_t split;
  std::uint32_t splits;
  std::uint32_t group;  // kv_head * parts + part
  std::uint32_t kv_head;
  std::uint32_t first_head;
  std::uint32_t heads;

  __device__ bool is_last_split() const { return split + 1 == splits; }
  /// The next split of the row, for the same heads. REQUIRES: this is not the last one. All but the
  /// last have one size.
  __device__ Tile next_split() const {
    Tile next = *this;
    next.begin = end;
    next.end = min(end + (end - begin), position);
    ++next.split;
    return next;
  }
  __device__ bool is_first_part(const HeadParts& parts) const { return group % parts.count == 0; }
};

/// One or several splits at fixed positions. A block goes through it in rounds of kLeast positions.
/// `begin` is a multiple of these and may be before `first` by more than 15; the last tile's `end`
/// is past `position`. `split` is the first of the tile's.
struct FixedTile : Tile {
  std::uint32_t tiles;  // how many the row has for these heads
  std::uint32_t bits;   // log2 of the size of the splits

  __device__ bool is_last_split() const { return end > position; }
  __device__ std::uint32_t rounds() const { return ceil_div(end - begin, FixedSplits::kLeast); }
  __device__ std::uint32_t round_at(std::uint32_t round) const {
    return begin + round * FixedSplits::kLeast;
  }
  /// Whether a round begins or ends its split in this tile, and which split that is.
  __device__ bool begins_split(std::uint32_t round) const {
    return round == 0 || (round_at(round) & ((1u << bits) - 1)) == 0;
  }
  __device__ bool ends_split(std::uint32_t round) const {
    return round_at(round + 1) >= end || begins_split(round + 1);
  }
  __device__ std::uint32_t split_of(std::uint32_t round) const {
    return split + (round_at(round) >> bits) - (begin >> bits);
  }
};

/// What all ways to cut rows into tiles share.
struct RowCut {
  HeadParts parts;
  std::uint32_t kv_heads;
  std::uint32_t window;

  __device__ std::uint32_t first(std::uint32_t position) const {
    return window != 0 && position >= window ? position - window + 1 : 0;
  }
  __device__ std::uint32_t groups() const { return kv_heads * parts.count; }
  __device__ void find_heads(Tile& t) const {
    t.kv_head = t.group / parts.count;
    const std::uint32_t skipped = (t.group - t.kv_head * parts.count) * parts.heads;
    t.first_head = t.kv_head * parts.group + skipped;
    t.heads = min(parts.heads, parts.group - skipped);
  }
};

/// How rows are cut by their length.
struct Cut : RowCut {
  Splits splits;

  /// Positions before its own that a row's splits cover, counted from a multiple of 16.
  __device__ std::uint32_t span(std::uint32_t position) const {
    const std::uint32_t from = first(position);
    return from == position ? 0 : position - from / 16 * 16;
  }
  __device__ std::uint32_t tiles(std::uint32_t position) const {
    return splits.count(span(position)) * groups();
  }

  /// Tile number `rank` of a row; the splits of one group are neighbours.
  __device__ Tile tile(std::uint32_t row, std::uint32_t slot, std::uint32_t position,
                       std::uint32_t rank) const {
    Tile t;
    t.row = row;
    t.slot = slot;
    t.position = position;
    t.first = first(position);
    const std::uint32_t size = splits.size(span(position));
    t.splits = splits.count(span(position));
    t.group = rank / t.splits;
    t.split = rank - t.group * t.splits;
    t.begin = t.first / 16 * 16 + t.split * size;
    t.end = t.first == position ? t.begin : min(t.begin + size, position);
    find_heads(t);
    return t;
  }
};

/// How rows are cut at fixed positions, in a step with up to `rows` rows.
struct FixedCut : RowCut {
  std::uint32_t rows;
  bool joins_rests = false;  // the last tile takes a rest of no more than one round with it

  __device__ FixedSplits splits() const { return FixedSplits::of_window(window); }
  /// How the row's positions are cut into tiles.
  __device__ FixedSplits blocks(std::uint32_t position) const {
    return FixedSplits::of_window(window,
                                  least_bits_of_block(rows, position + 1 - first(position)));
  }
  __device__ std::uint32_t tiles(std::uint32_t position) const {
    const FixedSplits of = blocks(position);
    return (last_block(of, position) - of.at(first(position)) + 1) * groups();
  }

  /// Tile number `rank` of a row; the tiles of one group are neighbours, the last one first since
  /// it is among the longest.
  __device__ FixedTile tile(std::uint32_t row, std::uint32_t slot, std::uint32_t position,
                            std::uint32_t rank) const {
    FixedTile t;
    t.row = row;
    t.slot = slot;
    t.position = position;
    t.first = first(position);
    const FixedSplits of = blocks(position);
    const std::uint32_t last = last_block(of, position);
    t.tiles = last - of.at(t.first) + 1;
    t.group = rank / t.tiles;
    const std::uint32_t at = last - (rank - t.group * t.tiles);
    t.begin = max(of.begin(at), t.first / FixedSplits::kLeast * FixedSplits::kLeast);
    t.end = at == last ? position + 1 : of.begin(at + 1);
    const FixedSplits all = splits();
    const std::uint32_t first_split = all.at(t.first);
    t.split = all.at(t.begin) - first_split;
    t.splits = all.at(position) - first_split + 1;
    t.bits = all.bits_at(t.begin);
    find_heads(t);
    return t;
  }

 private:
  /// The last tile. A rest where tiles grow is one of its own.
  __device__ std::uint32_t last_block(const FixedSplits& of, std::uint32_t position) const {
    const std::uint32_t last = of.at(position);
    const std::uint32_t begin = of.begin(last);
    const bool is_rest = joins_rests && begin > first(position) &&
                         position - begin < FixedSplits::kLeast &&
                         of.bits_at(begin) == of.bits_at(begin - 1);
    return is_rest ? last - 1 : last;
  }
};

/// The sum of all earlier threads' values, and of all. All threads of a block call. A barrier
/// inside separates the reads of this call from the last one's.
struct Prefix {
  std::uint32_t before;
  std::uint32_t all;
};
template <unsigned kThreads, class Team = WholeBlock>
__device__ inline Prefix prefix_sum(std::uint32_t mine, std::uint32_t (&warp_sums)[kThreads / 32]) {
  std::uint32_t sum = mine;  // over this and all earlier lanes
#pragma unroll
  for (unsigned step = 1; step < 32; step *= 2) {
    const std::uint32_t before = __shfl_up_sync(~0u, sum, step);
    if (threadIdx.x % 32 >= step) sum += before;
  }
  if (threadIdx.x % 32 == 31) warp_sums[Team::thread() / 32] = sum;
  Team::sync();
  Prefix result{sum - mine, 0};
#pragma unroll
  for (unsigned warp = 0; warp < kThreads / 32; ++warp) {
    if (warp < Team::thread() / 32) result.before += warp_sums[warp];
    result.all += warp_sums[warp];
  }
  return result;
}

/// The index of the last of `count` ascending numbers that is not above `value`. REQUIRES: the
/// first one is not.
__device__ inline std::uint32_t find_last(const std::uint32_t* numbers, std::uint32_t count,
                                          std::uint32_t value) {
  std::uint32_t at = 0;
  for (std::uint32_t end = count; at + 1 < end;) {
    const std::uint32_t middle = (at + end) / 2;
    (numbers[middle] <= value ? at : end) = middle;
  }
  return at;
}

/// The tiles of a decode step, whose rows are cut by a Cut or a FixedCut. All threads of a team
/// call all functions.
template <class CutType>
class Plan {
 public:
  __device__ Plan(const CutType& cut, std::uint32_t* words, std::uint32_t capacity)
      : cut_(cut),
        first_tiles_(words),
        positions_(words + capacity + 1),
        slots_(words + 2 * capacity + 1) {}

  /// Counts each row's tiles and computes their prefix sums. Ends with a barrier.
  template <unsigned kThreads, class Team = WholeBlock>
  __device__ void make(const std::int32_t* positions, const std::int32_t* slots,
                       const RowCount& count) {
    __shared__ std::uint32_t warp_sums[Team::kTeams][kThreads / 32];
    const std::uint32_t each = ceil_div(count.capacity, kThreads);
    const std::uint32_t from = min(Team::thread() * each, count.capacity);
    const std::uint32_t to = min(from + each, count.capacity);
    // Bypasses L1, which may hold values of an earlier step. Loads all rows up to the capacity,
    // since a bound would make one load wait for another.
    rows_ = min(__ldcg(count.count), count.capacity);
    for (std::uint32_t row = from; row < to; ++row) {
      positions_[row] = static_cast<std::uint32_t>(__ldcg(positions + row));
      slots_[row] = static_cast<std::uint32_t>(__ldcg(slots + row));
    }
    std::uint32_t mine = 0;
    for (std::uint32_t row = from; row < min(to, rows_); ++row) mine += cut_.tiles(positions_[row]);
    const Prefix sum = prefix_sum<kThreads, Team>(mine, warp_sums[Team::index()]);
    tiles_ = sum.all;
    std::uint32_t first = sum.before;
    for (std::uint32_t row = from; row < min(to, rows_); ++row) {
      first_tiles_[row] = first;
      first += cut_.tiles(positions_[row]);
    }
    Team::sync();
  }

  /// What `make` found, for a Plan over the same words that need not count again.
  struct Counts {
    std::uint32_t rows;
    std::uint32_t tiles;
  };
  __device__ Counts counts() const { return {rows_, tiles_}; }
  __device__ void set(const Counts& counts) {
    rows_ = counts.rows;
    tiles_ = counts.tiles;
  }

  __device__ std::uint32_t tiles() const { return tiles_; }
  /// REQUIRES: index < tiles().
  __device__ auto tile(std::uint32_t index) const {
    const std::uint32_t row = find_last(first_tiles_, rows_, index);
    return cut_.tile(row, slots_[row], positions_[row], index - first_tiles_[row]);
  }

 private:
  CutType cut_;
  std::uint32_t* first_tiles_;
  std::uint32_t* positions_;
  std::uint32_t* slots_;
  std::uint32_t rows_ = 0;
  std::uint32_t tiles_ = 0;
};

}  // namespace attacca::kernels::attending
