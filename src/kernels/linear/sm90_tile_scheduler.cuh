// sm90_tile_scheduler.cuh: which parts of which tiles a pair of blocks computes in
// sm90_tiled_linear.cuh, and where it leaves the partial sums of tiles that it shares with others.
#pragma once

#include <cstdint>

#include "kernels/linear/sm90_tiled_linear.hpp"

namespace attacca::kernels::tiled {

/// The stream-K tile scheduler: which units of which tiles a pair computes. Units are stages, or
/// classes where tiles are summed up in order.
template <bool kInOrder>
class TileScheduler {
 public:
  struct Segment {
    std::uint32_t tile;
    std::uint32_t begin;  // a range of the tile's units
    std::uint32_t end;
  };

  /// `units` is the number of units of a tile. `evenly`: tiles are split between equally many pairs
  /// each, or not at all. In order, `stages` are those of a tile, and `part_stages` is the number
  /// of stages that take as long as a partial sum.
  __device__ TileScheduler(std::uint32_t tiles, std::uint32_t units, bool may_split, bool evenly,
                           [[maybe_unused]] std::uint32_t stages,
                           [[maybe_unused]] std::uint32_t part_stages)
      : tiles_(tiles), units_(units), pairs_(gridDim.x / 2), pair_(blockIdx.x / 2) {
    if (may_split) pairs_ = max(min(pairs_, tiles * units), 1u);  // each has a unit at least
    // Prefers equally many pairs for each tile, or tiles for each pair, where that uses 90 % of the
    // pairs.
    const auto is_most = [&](std::uint32_t some, std::uint32_t all) {
      return some * 10 >= all * 9;
    };
    const std::uint32_t each = tiles == 0 ? 0 : min(pairs_ / tiles, units);
    const std::uint32_t waves = (tiles + pairs_ - 1) / pairs_;
    const bool is_even = each > 1 && (evenly || is_most(tiles * each, pairs_));
    if (may_split && is_even) pairs_ = tiles * each;
    splits_ = may_split && (is_even || (!evenly && !is_most(tiles, waves * pairs_)));
    // In order there are more partial sums, and tiles stay whole where these take longer than what
    // SMs idle otherwise.
    if constexpr (kInOrder)
      splits_ = splits_ && (waves * pairs_ - tiles) * stages > partial_sums() * part_stages;
    // Fewer pairs take as long if all have equally many tiles, and may keep their rows of x.
    if (!splits_ && waves != 0) pairs_ = (tiles + waves - 1) / waves;
    start_ = splits_ ? first_unit(pair_) : pair_;
    end_ = pair_ >= pairs_ ? 0 : splits_ ? first_unit(pair_ + 1) : tiles_;
    rewind();
  }
  __device__ void rewind() { at_ = start_; }
  __device__ bool has_more() const { return at_ < end_; }
  /// REQUIRES: has_more().
  __device__ Segment next() {
    if (!splits_) {
      const std::uint32_t tile = at_;
      at_ += pairs_;
      return {tile, 0, units_};
    }
    const std::uint32_t tile = at_ / units_;
    const std::uint32_t begin = at_ - tile * units_;
    const std::uint32_t end = min(units_, begin + (end_ - at_));
    at_ += end - begin;
    return {tile, begin, end};
  }
  __device__ bool is_whole(const Segment& s) const { return s.end - s.begin == units_; }

  /// A split tile: the pairs that share it, which are neighbours, and its partial sums. Each pair
  /// leaves one. In order, only the first pair can add up its classes, and the others leave one for
  /// each.
  struct Split {
    std::uint32_t first;
    std::uint32_t count;
    std::uint32_t parts;
  };
  __device__ Split split(std::uint32_t tile) const {
    const std::uint32_t first = pair_of(tile * units_);
    const std::uint32_t count = pair_of((tile + 1) * units_ - 1) + 1 - first;
    return {first, count, kInOrder ? 1 + units_ - first_units(tile, first) : count};
  }
  /// The slot of a partial sum in the workspace. In order, a pair has one slot for each class, and
  /// slot 0 takes the sum of the classes that a tile begins with. Otherwise a pair has two slots:
  /// one for the first tile it works on, one for the last, of which it is then the first pair.
  __device__ std::uint32_t slot(std::uint32_t tile, const Split& split, std::uint32_t part) const {
    if constexpr (kInOrder) {
      if (part == 0) return split.first * kSlots;
      const std::uint32_t unit = units_ - split.parts + part;
      return pair_of(tile * units_ + unit) * kSlots + unit;
    } else {
      const bool is_last = part == 0 && first_unit(split.first) < tile * units_;
      return kSlots * (split.first + part) + is_last;
    }
  }
  static constexpr unsigned kSlots = slots_of_pair(kInOrder);
  __device__ std::uint32_t pair() const { return pair_; }
  __device__ std::uint32_t units() const { return units_; }

 private:
  __device__ std::uint32_t first_unit(std::uint32_t pair) const {
    return pair * (tiles_ * units_) / pairs_;
  }
  __device__ std::uint32_t pair_of(std::uint32_t unit) const {
    return ((unit + 1) * pairs_ - 1) / (tiles_ * units_);
  }
  /// How many there are if tiles are split: one for each of them, and one for each unit but those
  /// of its first pair. That pair begins with the tile, or on average in the middle of its run or
  /// of the tile.
  __device__ std::uint32_t partial_sums() const {
    if (pairs_ < tiles_) return pairs_ * (1 + units_ / 2);
    const std::uint32_t all = tiles_ * units_;
    return tiles_ + all - (pairs_ % tiles_ == 0 ? 2 : 1) * (all * tiles_ / pairs_) / 2;
  }
  /// Units of a tile that its first pair has.
  __device__ std::uint32_t first_units(std::uint32_t tile, std::uint32_t first) const {
    return first_unit(first + 1) - tile * units_;
  }

  std::uint32_t tiles_;
  std::uint32_t units_;
  std::uint32_t pairs_;
  std::uint32_t pair_;
  bool splits_;
  std::uint32_t start_;
  std::uint32_t end_;
  std::uint32_t at_;
};

}  // namespace attacca::kernels::tiled
