// attention_rows.cuh: attention of a block for one row (decode), one Tile at a time. Its four warps
// take 16 positions each in turn and combine their results only at the tile's end. With fixed
// splits each takes a chain in turn, and four chains are folded at a time. The partial results of
// several splits go to the workspace, where the block that finishes last combines them. The work of
// a warp is in attention_warp.cuh.
#pragma once

#include <type_traits>

#include "kernels/attention/attention_fold.cuh"
#include "kernels/attention/attention_tiles.cuh"
#include "kernels/attention/attention_warp.cuh"

namespace attacca::kernels::attending {

inline constexpr unsigned kWarps = 4;
inline constexpr unsigned kThreads = kWarps * 32;
static_assert(kSplitStep == 16 * kWarps);
static_assert(FixedSplits::kLeast == kChain * kWarps);

/// How a block computes rows.
struct RowWay {
  bool is_fixed;        // at fixed splits, which are folded in order: the same bits as in a prompt
  bool loads_ahead;     // a warp loads its next positions while it computes
  bool finds_own_page;  // a row's own position is in its page already
};

/// `Args` has kv, heads, slot_count, window, workspace and y.
template <class Args, KvType kType, unsigned kSize, RowWay kWay, class Team = WholeBlock>
class RowTiles {
  static constexpr bool kLoadsAhead = kWay.loads_ahead;
  static constexpr unsigned kChainTurns = kChain / 16;

 public:
  using Tile = std::conditional_t<kWay.is_fixed, FixedTile, attending::Tile>;
  static constexpr unsigned kBytes = kv_element_bytes(kType);
  static constexpr unsigned kStride = kSize + 4;  // floats of a head's sums in shared memory

  /// The chains of a split so far, as each thread folded them.
  struct Folded {
    float4 folded_sums[kTileHeads * kSize / 4];
    float2 folded_stats[kTileHeads * kSize / 4];
  };
  struct Nothing {};
  struct Shared : std::conditional_t<kWay.is_fixed, Folded, Nothing> {
    Queries<kSize> queries;
    alignas(16) float sums[kWarps][kTileHeads * kStride];
    float max[kWarps][kTileHeads];
    float total[kWarps][kTileHeads];
    std::uint32_t finished;
  };

  __device__ RowTiles(const Args& args, Shared& shared)
      : a_(args),
        shared_(shared),
        parts_(args.heads, args.kv.kv_heads),
        lane_(threadIdx.x % 32),
        warp_(Team::thread() / 32),
        page_bits_(4 + args.kv.page_size / 32) {
    const AttentionWorkspace space = workspace();
    auto* bytes = static_cast<unsigned char*>(args.workspace);
    finished_ = reinterpret_cast<std::uint32_t*>(bytes) + 1;
    stats_ = reinterpret_cast<float2*>(bytes + space.stats_at);
    sums_ = reinterpret_cast<float*>(bytes + space.sums_at);
    if constexpr (kWay.is_fixed)
      most_splits_ = most_fixed_splits(longest_span(args.kv, args.window), args.window);
  }
  /// The counter of claimed tiles.
  __device__ std::uint32_t* claimed() const { return finished_ - 1; }
  __device__ const HeadParts& parts() const { return parts_; }

  /// Starts to load this lane's first page of a tile.
  __device__ std::int32_t load_page(const Tile& tile) const { return load_page(tile, lane_); }
  /// Starts a tile by loading its first positions.
  __device__ void start(const Tile& tile, std::int32_t page) {
    page_ = page;
    if (!kLoadsAhead || turns(tile) == 0) return;
    const std::uint64_t at = find(tile, 0);
    load_keys(tile, 0, at);
    load_values(tile, 0, at);
  }
  /// Attends over the warp's positions of a tile that was started. The last warp of the last split
  /// also attends to the row's own position, which `own` loads into the first of 16.
  template <class Own>
  __device__ void attend(const Tile& tile, const Own& own) {
    static_assert(!kWay.is_fixed);
    softmax_.clear();
    const std::uint32_t in_pages = turns(tile);
    const bool has_own = tile.is_last_split() && warp_ == kWarps - 1;
    for (std::uint32_t turn = 0; turn < in_pages + has_own; ++turn) {
      const bool is_own = turn == in_pages;
      const Range range = is_own ? Range{0, 1} : seen(tile, turn, tile.end);
      const std::uint32_t loads = kLoadsAhead ? turn + 1 : turn;  // what is loaded during this turn
      std::uint64_t at = 0;
      if (loads < in_pages) {
        if (loads % 32 == 0 && loads != 0) page_ = load_page(tile, loads + lane_);
        at = find(tile, loads);
      }
      if (!kLoadsAhead && !is_own) load_keys(tile, turn, at);
      if (is_own) own.load_key(positions_);
      float scores[4];
      softmax_.score(positions_, shared_.queries, range.from, range.to, scores);
      if (kLoadsAhead && loads < in_pages) load_keys(tile, loads, at);
      if (!kLoadsAhead && !is_own) load_values(tile, turn, at);
      if (is_own) own.load_value(positions_);
      softmax_.add(positions_, scores);
      if (kLoadsAhead && loads < in_pages) load_values(tile, loads, at);
    }
  }
  /// The same at fixed splits, where the row's own position is among the others. If it is not in
  /// its page yet, `own` puts it there. The chains of all rounds but the last one are folded.
  template <class Own>
  __device__ void attend_fixed(const Tile& tile, const Own& own, std::uint32_t unit) {
    static_assert(kWay.is_fixed);
    const std::uint32_t last = turns(tile);
    const std::uint32_t rounds = tile.rounds();
    for (std::uint32_t round = 0;; ++round) {
      softmax_.clear();
      attend_chain(tile, own, round * kChainTurns, min((round + 1) * kChainTurns, last), last);
      if (round + 1 == rounds) return;
      store_partials(tile);
      Team::sync();
      fold_round(tile, round, unit);
      Team::sync();
    }
  }
  /// Stores the warp's results in shared memory. A barrier must follow.
  __device__ void store_partials(const Tile& tile) {
    if constexpr (!kWay.is_fixed) softmax_.finish();
    softmax_.store_sums(shared_.sums[warp_], kStride, tile.heads);
    if (lane_ < 4) {
#pragma unroll
      for (unsigned head = 0; head < 2; ++head) {
        shared_.max[warp_][lane_ * 2 + head] = softmax_.max[head];
        shared_.total[warp_][lane_ * 2 + head] = softmax_.total[head];
      }
    }
  }
  /// From now on this block computes all splits of a row for some of its heads. Partial results go
  /// to the block's own part of the workspace, at the index of the split. REQUIRES:
  /// f32, since otherwise the workspace has no such part.
  __device__ void keep_splits() {
    const AttentionWorkspace space = workspace();
    auto* own =
        static_cast<unsigned char*>(a_.workspace) + space.bytes + blockIdx.x * space.block_bytes;
    stats_ = reinterpret_cast<float2*>(own);
    sums_ = reinterpret_cast<float*>(own + space.block_sums_at);
  }
  /// With `keep_splits`, these replace `finish`: `keep` stores a split's partial result; after all
  /// of them and a barrier, `finish_kept` combines them, given any of their tiles.
  __device__ void keep(const Tile& tile) { merge(tile, tile.split); }
  __device__ void finish_kept(const Tile& tile) {
    if (tile.splits > 1) combine(tile, 0);
  }
  /// Combines what the warps stored into the row's result, together with the other splits if this
  /// one finishes last. `index` is the tile's; splits are neighbours. `unit` selects the counters
  /// of a row or slot.
  __device__ void finish(const Tile& tile, std::uint32_t index, std::uint32_t unit) {
    merge(tile, index);
    if (tile.splits > 1 && is_last_to_finish(tile, unit, tile.splits))
      combine(tile, index - tile.split);
  }
  /// The same at fixed splits.
  __device__ void finish_fixed(const Tile& tile, std::uint32_t unit) {
    fold_round(tile, tile.rounds() - 1, unit);
    if (tile.splits > 1 && is_last_to_finish(tile, unit, tile.tiles))
      fold(tile, first_partial(tile, unit));
  }

 private:
  __device__ AttentionWorkspace workspace() const {
    if constexpr (kWay.is_fixed)
      return {a_.slot_count, a_.heads, a_.kv.kv_heads, a_.kv.head_size,
              FixedSplitsOf{longest_span(a_.kv, a_.window), a_.window}};
    else
      return {a_.slot_count, a_.heads, a_.kv.kv_heads, a_.kv.head_size,
              LengthSplitsOf{longest_span(a_.kv, a_.window)}};
  }

  /// Attends over turns [turn, end) of `last`.
  template <class Own>
  __device__ void attend_chain(const Tile& tile, const Own& own, std::uint32_t turn,
                               std::uint32_t end, std::uint32_t last) {
    for (; turn < end; ++turn) {
      const std::uint32_t start = start_of(tile, turn);
      const bool is_own = !kWay.finds_own_page && tile.position - start < 16;
      const Range range = seen(tile, turn, tile.end);
      const std::uint32_t loads = kLoadsAhead ? turn + 1 : turn;  // what is loaded during this turn
      std::uint64_t at = 0;
      if (loads < last) {
        if (loads % 32 == 0 && loads != 0) page_ = load_page(tile, loads + lane_);
        at = find(tile, loads);
      }
      if (!kLoadsAhead) load_keys(tile, turn, at);
      if (is_own) own.put_key(positions_, tile.position - start);
      float scores[4];
      softmax_.score(positions_, shared_.queries, range.from, range.to, scores);
      if (kLoadsAhead && loads < last) load_keys(tile, loads, at);
      if (!kLoadsAhead) load_values(tile, turn, at);
      if (is_own) own.put_value(positions_, tile.position - start);
      softmax_.add_to_chain(positions_, scores);
      if (kLoadsAhead && loads < last) load_values(tile, loads, at);
    }
  }
  // The warp's positions: its turn i starts at begin + (i * kWarps + warp) * 16. At fixed splits it
  // has a chain of every round, in kChainTurns turns.

  __device__ std::uint32_t start_of(const Tile& tile, std::uint32_t turn) const {
    if constexpr (kWay.is_fixed) {
      return tile.round_at(turn / kChainTurns) + warp_ * kChain + turn % kChainTurns * 16;
    } else {
      return tile.begin + (turn * kWarps + warp_) * 16;
    }
  }
  __device__ std::uint32_t turns(const Tile& tile) const {
    if constexpr (kWay.is_fixed) {
      const std::uint32_t positions = tile.end - tile.begin;
      const std::uint32_t rest = positions % FixedSplits::kLeast;
      const std::uint32_t mine = rest > warp_ * kChain ? min(rest - warp_ * kChain, kChain) : 0;
      return positions / FixedSplits::kLeast * kChainTurns + ceil_div(mine, 16);
    } else {
      const std::uint32_t at = start_of(tile, 0);
      return at < tile.end ? ceil_div(tile.end - at, 16 * kWarps) : 0;
    }
  }
  /// The page of a turn; `page_` holds those of 32 turns, one in each lane.
  __device__ std::int32_t load_page(const Tile& tile, std::uint32_t turn) const {
    const std::uint32_t at = start_of(tile, turn);
    if (at >= tile.end) return 0;
    return __ldcg(a_.kv.tables + std::uint64_t{tile.slot} * a_.kv.table_stride +
                  (at >> page_bits_));
  }
  /// Offset in bytes of a turn's first position. All lanes call.
  __device__ std::uint64_t find(const Tile& tile, std::uint32_t turn) const {
    const auto page = static_cast<std::uint64_t>(__shfl_sync(~0u, page_, turn % 32));
    const std::uint32_t inside = start_of(tile, turn) & (a_.kv.page_size - 1);
    return (((page * a_.kv.kv_heads + tile.kv_head) << page_bits_) + inside) * a_.kv.head_size *
           kBytes;
  }
  struct Range {
    unsigned from;
    unsigned to;
  };
  /// What a turn sees of the positions before `end`.
  __device__ Range seen(const Tile& tile, std::uint32_t turn, std::uint32_t end) const {
    const std::uint32_t at = start_of(tile, turn);
    return {tile.first > at ? tile.first - at : 0, min(end - at, 16u)};
  }
  /// What it sees of the positions in pages.
  __device__ Range stored(const Tile& tile, std::uint32_t turn) const {
    constexpr bool kHasOwn = kWay.is_fixed && !kWay.finds_own_page;
    return seen(tile, turn, kHasOwn ? min(tile.end, tile.position) : tile.end);
  }
  __device__ void load_keys(const Tile& tile, std::uint32_t turn, std::uint64_t at) {
    const Range range = stored(tile, turn);
    positions_.load_keys(a_.kv.template keys_as<unsigned char>() + at, a_.kv.head_size, range.from,
                         range.to);
  }
  __device__ void load_values(const Tile& tile, std::uint32_t turn, std::uint64_t at) {
    const Range range = stored(tile, turn);
    positions_.load_values(a_.kv.template values_as<unsigned char>() + at, a_.kv.head_size,
                           range.from, range.to);
  }

  /// Combines the four warps' results into y, or into the tile's partial result if there are other
  /// splits.
  __device__ void merge(const Tile& tile, std::uint32_t index) {
    const std::uint32_t size = a_.kv.head_size;
    const std::uint64_t first = std::uint64_t{index} * parts_.heads;
    for (unsigned at = Team::thread() * 4; at < tile.heads * size; at += kThreads * 4) {
      const unsigned head = at / size;
      const unsigned dimension = at - head * size;
      float max = -INFINITY;
      float total = 0;
      float4 sum{};
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp) max = fmaxf(max, shared_.max[warp][head]);
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp) {
        const float weight = fast_exp2(shared_.max[warp][head] - max);
        total += weight * shared_.total[warp][head];
        const float4 part =
            *reinterpret_cast<const float4*>(shared_.sums[warp] + head * kStride + dimension);
        sum.x += weight * part.x;
        sum.y += weight * part.y;
        sum.z += weight * part.z;
        sum.w += weight * part.w;
      }
      if (tile.splits == 1) {
        store_result(tile, head, dimension, sum, 1 / total);
      } else {
        *reinterpret_cast<float4*>(sums_ + (first + head) * size + dimension) = sum;
        if (dimension == 0) stats_[first + head] = {max, total};
      }
    }
  }

  /// Folds the chains of a round behind those before them in their split. The split ends as `merge`
  /// ends.
  __device__ void fold_round(const Tile& tile, std::uint32_t round, std::uint32_t unit) {
    const std::uint32_t size = a_.kv.head_size;
    const bool begins = tile.begins_split(round);
    const bool ends = tile.ends_split(round);
    const std::uint64_t first = (first_partial(tile, unit) + tile.split_of(round)) * parts_.heads;
    for (unsigned at = Team::thread() * 4; at < tile.heads * size; at += kThreads * 4) {
      const unsigned head = at / size;
      const unsigned dimension = at - head * size;
      float2 stats = begins ? float2{-INFINITY, 0} : shared_.folded_stats[at / 4];
      float4 sum = begins ? float4{} : shared_.folded_sums[at / 4];
      Fold fold{stats.x};
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp) {
        const Fold::Weights weights = fold.add(shared_.max[warp][head]);
        stats.y = weights.folded(stats.y, shared_.total[warp][head]);
        sum = weights.folded(
            sum, *reinterpret_cast<const float4*>(shared_.sums[warp] + head * kStride + dimension));
      }
      stats.x = fold.max;
      if (!ends) {
        shared_.folded_stats[at / 4] = stats;
        shared_.folded_sums[at / 4] = sum;
      } else if (tile.splits == 1) {
        sum = Fold::Weights{0, 1}.folded(float4{}, sum);  // as if it were the first of several
        store_result(tile, head, dimension, sum, 1 / stats.y);
      } else {
        *reinterpret_cast<float4*>(sums_ + (first + head) * size + dimension) = sum;
        if (dimension == 0) stats_[first + head] = stats;
      }
    }
  }
  /// The index of the first split's partial result.
  __device__ std::uint64_t first_partial(const Tile& tile, std::uint32_t unit) const {
    const std::uint64_t groups = std::uint64_t{a_.kv.kv_heads} * parts_.count;
    return (unit * groups + tile.group) * most_splits_;
  }

  __device__ void store_result(const Tile& tile, unsigned head, unsigned dimension,
                               const float4& sum, float factor) {
    const std::uint64_t at =
        (std::uint64_t{tile.row} * a_.heads + tile.first_head + head) * a_.kv.head_size + dimension;
    const auto scaled = [&](float x) { return product<kWay.is_fixed>(x, factor); };
    const float4 y{scaled(sum.x), scaled(sum.y), scaled(sum.z), scaled(sum.w)};
    const uint2 pairs{pair_of<true>(y.x, y.y), pair_of<true>(y.z, y.w)};
    *reinterpret_cast<uint2*>(a_.y + at) = pairs;
    if (a_.y_rest)
      *reinterpret_cast<uint2*>(a_.y_rest + at) = {rest_of<true>(y.x, y.y, pairs.x),
                                                   rest_of<true>(y.z, y.w, pairs.y)};
  }

  /// Whether this was the last tile of the row's heads to finish.
  __device__ bool is_last_to_finish(const Tile& tile, std::uint32_t unit, std::uint32_t tiles) {
    Team::sync();
    if (Team::thread() == 0) {
      const std::uint64_t groups = std::uint64_t{a_.kv.kv_heads} * parts_.count;
      shared_.finished = atomic_inc_acq_rel(finished_ + unit * groups + tile.group, tiles - 1);
    }
    Team::sync();
    return shared_.finished == tiles - 1;
  }

  /// Combines the splits in order. One warp for each head; lane i has split i's weight.
  __device__ void combine(const Tile& tile, std::uint32_t first_index) {
    const std::uint32_t size = a_.kv.head_size;
    const std::uint32_t stride = parts_.heads;
    for (unsigned head = warp_; head < tile.heads; head += kWarps) {
      const std::uint64_t first = std::uint64_t{first_index} * stride + head;
      // The first sums load while their weights are computed.
      float4 parts[4];
      load_parts(tile, first, 0, lane_ * 4, parts);
      const float2 limit =
          lane_ < tile.splits ? __ldcg(stats_ + first + lane_ * stride) : float2{-INFINITY, 0};
      float max = limit.x;
#pragma unroll
      for (unsigned step = 16; step != 0; step /= 2)
        max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
      const float weight = fast_exp2(limit.x - max);
      float total = weight * limit.y;
#pragma unroll
      for (unsigned step = 16; step != 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
      for (std::uint32_t base = 0; base < size; base += 128) {
        const std::uint32_t dimension = base + lane_ * 4;
        const bool is_mine = dimension < size;
        float4 sum{};
        for (std::uint32_t split = 0; split < tile.splits; split += 4) {
          if (base + split != 0) load_parts(tile, first, split, dimension, parts);
#pragma unroll
          for (unsigned i = 0; i < 4; ++i) {
            const float split_weight = __shfl_sync(~0u, weight, split + i);
            sum.x += split_weight * parts[i].x;
            sum.y += split_weight * parts[i].y;
            sum.z += split_weight * parts[i].z;
            sum.w += split_weight * parts[i].w;
          }
        }
        if (is_mine) store_result(tile, head, dimension, sum, 1 / total);
      }
    }
  }

  /// Folds the splits in order. One warp for each head; lane i has the weights of split i, of 32 at
  /// a time.
  __device__ void fold(const Tile& tile, std::uint64_t first_index) {
    constexpr unsigned kAtOnce = 8;                    // splits
    constexpr unsigned kParts = ceil_div(kSize, 128);  // dimensions that all lanes have at a time
    const std::uint32_t stride = parts_.heads;
    for (unsigned head = warp_; head < tile.heads; head += kWarps) {
      const std::uint64_t first = first_index * stride + head;
      float4 sums[kParts] = {};
      float total = 0;
      float max = -INFINITY;
      // The first sums load while their weights are computed.
      float4 parts[kAtOnce];
      load_parts(tile, first, 0, lane_ * 4, parts);
      for (std::uint32_t from = 0; from < tile.splits; from += 32) {
        const float2 mine = from + lane_ < tile.splits
                                ? __ldcg(stats_ + first + (from + lane_) * stride)
                                : float2{-INFINITY, 0};
        float before = max;  // of all splits before this lane's
        float upto = fmaxf(max, mine.x);
#pragma unroll
        for (unsigned step = 1; step < 32; step *= 2) {
          const float other = __shfl_up_sync(~0u, upto, step);
          if (lane_ >= step) upto = fmaxf(upto, other);
        }
        const float left = __shfl_up_sync(~0u, upto, 1);
        if (lane_ != 0) before = left;
        max = __shfl_sync(~0u, upto, 31);
        const Fold::Weights weights = Fold{before}.add(mine.x);
        const std::uint32_t here = min(tile.splits - from, 32u);
#pragma unroll
        for (unsigned part = 0; part < kParts; ++part) {
          for (std::uint32_t split = 0; split < here; split += kAtOnce) {
            if (from + split + part != 0)
              load_parts(tile, first, from + split, part * 128 + lane_ * 4, parts);
#pragma unroll
            for (unsigned i = 0; i < kAtOnce; ++i) {
              const Fold::Weights of{__shfl_sync(~0u, weights.so_far, split + i),
                                     __shfl_sync(~0u, weights.next, split + i)};
              const float other = __shfl_sync(~0u, mine.y, split + i);
              sums[part] = of.folded(sums[part], parts[i]);
              if (part == 0) total = of.folded(total, other);
            }
          }
        }
      }
#pragma unroll
      for (unsigned part = 0; part < kParts; ++part) {
        const std::uint32_t dimension = part * 128 + lane_ * 4;
        if (dimension < a_.kv.head_size) store_result(tile, head, dimension, sums[part], 1 / total);
      }
    }
  }

  /// Loads some splits' sums of a head, zeros past the last split.
  template <unsigned kCount>
  __device__ void load_parts(const Tile& tile, std::uint64_t first, std::uint32_t split,
                             std::uint32_t dimension, float4 (&parts)[kCount]) const {
    const std::uint32_t size = a_.kv.head_size;
#pragma unroll
    for (unsigned i = 0; i < kCount; ++i)
      parts[i] = dimension < size && split + i < tile.splits
                     ? __ldcg(reinterpret_cast<const float4*>(
                           sums_ + (first + (split + i) * parts_.heads) * size + dimension))
                     : float4{};
  }

  const Args& a_;
  Shared& shared_;
  HeadParts parts_;
  unsigned lane_;
  unsigned warp_;
  std::uint32_t page_bits_;
  std::uint32_t* finished_;  // counts splits of each unit and part
  float2* stats_;
  float* sums_;
  std::int32_t page_ = 0;  // the page of this lane's turn
  Positions<kType, kSize> positions_;
  OnlineSoftmax<kType, kSize, kWay.is_fixed> softmax_;
  std::uint32_t most_splits_;  // of a row, where they are fixed
};

}  // namespace attacca::kernels::attending
