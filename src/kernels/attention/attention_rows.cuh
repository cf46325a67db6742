// attention_rows.cuh: a block attends for one row, a Tile at a time. Its four warps take 16
// positions each in turn and meet only at the tile's end. The results of several splits meet in the
// workspace, where the block that ends last adds them up.
#pragma once

#include "kernels/attention/attention_tiles.cuh"
#include "kernels/attention/attention_warp.cuh"

namespace attacca::kernels::attending {

inline constexpr unsigned kWarps = 4;
inline constexpr unsigned kThreads = kWarps * 32;
static_assert(kSplitStep == 16 * kWarps);

/// `Args`: what has kv, heads, slot_count, window, workspace and y. `kLoadsAhead`: what a warp
/// needs next is on its way while it computes; floats take the registers of two, and are loaded
/// when needed.
template <class Args, KvType kType, unsigned kSize, bool kLoadsAhead = kType != KvType::f32>
class RowTiles {
 public:
  static constexpr unsigned kBytes = kv_element_bytes(kType);
  static constexpr unsigned kStride = kSize + 4;  // of sums in shared memory

  struct Shared {
    Queries<kSize> queries;
    alignas(16) float sums[kWarps][kTileHeads * kStride];
    float max[kWarps][kTileHeads];
    float total[kWarps][kTileHeads];
    std::uint32_t ended;
  };

  __device__ RowTiles(const Args& args, Shared& shared)
      : a_(args),
        shared_(shared),
        parts_(args.heads, args.kv.kv_heads),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        page_bits_(4 + args.kv.page_size / 32) {
    const AttentionWorkspace space = workspace();
    auto* bytes = static_cast<unsigned char*>(args.workspace);
    ended_ = reinterpret_cast<std::uint32_t*>(bytes) + 1;
    limits_ = reinterpret_cast<float2*>(bytes + space.limits_at);
    sums_ = reinterpret_cast<float*>(bytes + space.sums_at);
  }
  /// Counts the tiles that were claimed.
  __device__ std::uint32_t* claimed() const { return ended_ - 1; }
  __device__ const HeadParts& parts() const { return parts_; }

  /// The tile's first page of this lane, on its way.
  __device__ std::int32_t load_page(const Tile& tile) const { return load_page(tile, lane_); }
  /// Starts a tile: its first positions are on their way.
  __device__ void start(const Tile& tile, std::int32_t page) {
    page_ = page;
    if (!kLoadsAhead || turns(tile) == 0) return;
    const std::uint64_t at = find(tile, 0);
    load_keys(tile, 0, at);
    load_values(tile, 0, at);
  }
  /// The warp's positions of a tile that was started; for the last warp of the last split also the
  /// row's own one, which `own` brings into the first of 16 places.
  template <class Own>
  __device__ void attend(const Tile& tile, const Own& own) {
    sight_.clear();
    const std::uint32_t in_pages = turns(tile);
    const bool has_own = tile.is_last_split() && warp_ == kWarps - 1;
    for (std::uint32_t turn = 0; turn < in_pages + has_own; ++turn) {
      const bool is_own = turn == in_pages;
      const Range range = is_own ? Range{0, 1} : seen(tile, turn);
      const std::uint32_t loads = kLoadsAhead ? turn + 1 : turn;  // during this turn
      std::uint64_t at = 0;
      if (loads < in_pages) {
        if (loads % 32 == 0 && loads != 0) page_ = load_page(tile, loads + lane_);
        at = find(tile, loads);
      }
      if (!kLoadsAhead && !is_own) load_keys(tile, turn, at);
      if (is_own) own.bring_key(positions_);
      float scores[4];
      sight_.score(positions_, shared_.queries, range.from, range.to, scores);
      if (kLoadsAhead && loads < in_pages) load_keys(tile, loads, at);
      if (!kLoadsAhead && !is_own) load_values(tile, turn, at);
      if (is_own) own.bring_value(positions_);
      sight_.add(positions_, scores);
      if (kLoadsAhead && loads < in_pages) load_values(tile, loads, at);
    }
  }
  /// The warp's results into shared memory. A barrier must follow.
  __device__ void put_down(const Tile& tile) {
    sight_.finish();
    sight_.put_sums(shared_.sums[warp_], kStride, tile.heads);
    if (lane_ < 4) {
#pragma unroll
      for (unsigned head = 0; head < 2; ++head) {
        shared_.max[warp_][lane_ * 2 + head] = sight_.max[head];
        shared_.total[warp_][lane_ * 2 + head] = sight_.total[head];
      }
    }
  }
  /// From now on the splits of a row, for some of its heads, are all this block's: results meet in
  /// its own part of the workspace, at the number of the split. REQUIRES:
  /// kv.computes_rows_alone(), for else the workspace has no such part.
  __device__ void keep_splits() {
    const AttentionWorkspace space = workspace();
    auto* own =
        static_cast<unsigned char*>(a_.workspace) + space.bytes + blockIdx.x * space.block_bytes;
    limits_ = reinterpret_cast<float2*>(own);
    sums_ = reinterpret_cast<float*>(own + space.block_sums_at);
  }
  /// With `keep_splits`, in the place of `finish`: a split's part of the result; after all of them
  /// and a barrier, the result, from any of their tiles.
  __device__ void keep(const Tile& tile) { merge(tile, tile.split); }
  __device__ void finish_kept(const Tile& tile) {
    if (tile.splits > 1) combine(tile, 0);
  }
  /// What the warps put down becomes the row's result, or with those of other splits. `index`: the
  /// tile's own, splits are neighbours; `unit`: the row's or slot's counters.
  __device__ void finish(const Tile& tile, std::uint32_t index, std::uint32_t unit) {
    merge(tile, index);
    if (tile.splits > 1 && is_last_to_end(tile, unit)) combine(tile, index - tile.split);
  }

 private:
  __device__ AttentionWorkspace workspace() const {
    return {a_.slot_count, a_.heads, a_.kv.kv_heads, a_.kv.head_size,
            longest_span(a_.kv, a_.window)};
  }

  // Where the warp's positions are. Its turn i starts at begin + (i * kWarps + warp) * 16.

  __device__ std::uint32_t start_of(const Tile& tile, std::uint32_t turn) const {
    return tile.begin + (turn * kWarps + warp_) * 16;
  }
  __device__ std::uint32_t turns(const Tile& tile) const {
    const std::uint32_t at = start_of(tile, 0);
    return at < tile.end ? ceil_div(tile.end - at, 16 * kWarps) : 0;
  }
  /// The page of a turn; `page_` has those of 32 turns, one in each lane.
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
  __device__ Range seen(const Tile& tile, std::uint32_t turn) const {
    const std::uint32_t at = start_of(tile, turn);
    return {tile.first > at ? tile.first - at : 0, min(tile.end - at, 16u)};
  }
  __device__ void load_keys(const Tile& tile, std::uint32_t turn, std::uint64_t at) {
    const Range range = seen(tile, turn);
    positions_.load_keys(a_.kv.template keys_as<unsigned char>() + at, a_.kv.head_size, range.from,
                         range.to);
  }
  __device__ void load_values(const Tile& tile, std::uint32_t turn, std::uint64_t at) {
    const Range range = seen(tile, turn);
    positions_.load_values(a_.kv.template values_as<unsigned char>() + at, a_.kv.head_size,
                           range.from, range.to);
  }

  /// The four warps' results become one: y, or where there are other splits the tile's part.
  __device__ void merge(const Tile& tile, std::uint32_t index) {
    const std::uint32_t size = a_.kv.head_size;
    const std::uint64_t first = std::uint64_t{index} * parts_.heads;
    for (unsigned at = threadIdx.x * 4; at < tile.heads * size; at += kThreads * 4) {
      const unsigned head = at / size;
      const unsigned dimension = at - head * size;
      float max = -INFINITY;
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp) max = fmaxf(max, shared_.max[warp][head]);
      float total = 0;
      float4 sum{};
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp) {
        const float weight = power_of_two(shared_.max[warp][head] - max);
        total += weight * shared_.total[warp][head];
        const float4 part =
            *reinterpret_cast<const float4*>(shared_.sums[warp] + head * kStride + dimension);
        sum.x += weight * part.x;
        sum.y += weight * part.y;
        sum.z += weight * part.z;
        sum.w += weight * part.w;
      }
      if (tile.splits == 1) {
        put_result(tile, head, dimension, sum, 1 / total);
      } else {
        *reinterpret_cast<float4*>(sums_ + (first + head) * size + dimension) = sum;
        if (dimension == 0) limits_[first + head] = {max, total};
      }
    }
  }

  __device__ void put_result(const Tile& tile, unsigned head, unsigned dimension, const float4& sum,
                             float factor) {
    const std::uint64_t at =
        (std::uint64_t{tile.row} * a_.heads + tile.first_head + head) * a_.kv.head_size + dimension;
    const float4 y{sum.x * factor, sum.y * factor, sum.z * factor, sum.w * factor};
    const uint2 pairs{pair_of<true>(y.x, y.y), pair_of<true>(y.z, y.w)};
    *reinterpret_cast<uint2*>(a_.y + at) = pairs;
    if (a_.y_rest)
      *reinterpret_cast<uint2*>(a_.y_rest + at) = {rest_of<true>(y.x, y.y, pairs.x),
                                                   rest_of<true>(y.z, y.w, pairs.y)};
  }

  /// Whether all splits of the row's heads have ended, this one last.
  __device__ bool is_last_to_end(const Tile& tile, std::uint32_t unit) {
    __syncthreads();
    if (threadIdx.x == 0) {
      const std::uint64_t groups = std::uint64_t{a_.kv.kv_heads} * parts_.count;
      shared_.ended = count_and_order(ended_ + unit * groups + tile.group, tile.splits - 1);
    }
    __syncthreads();
    return shared_.ended == tile.splits - 1;
  }

  /// Adds up the splits in their order. A warp for each head; lane i knows split i's weight.
  __device__ void combine(const Tile& tile, std::uint32_t first_index) {
    const std::uint32_t size = a_.kv.head_size;
    const std::uint32_t stride = parts_.heads;
    for (unsigned head = warp_; head < tile.heads; head += kWarps) {
      const std::uint64_t first = std::uint64_t{first_index} * stride + head;
      // The first sums are on their way while their weights are found.
      float4 parts[4];
      load_parts(tile, first, 0, lane_ * 4, parts);
      const float2 limit =
          lane_ < tile.splits ? __ldcg(limits_ + first + lane_ * stride) : float2{-INFINITY, 0};
      float max = limit.x;
#pragma unroll
      for (unsigned step = 16; step != 0; step /= 2)
        max = fmaxf(max, __shfl_xor_sync(~0u, max, step));
      const float weight = power_of_two(limit.x - max);
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
            const float share = __shfl_sync(~0u, weight, split + i);
            sum.x += share * parts[i].x;
            sum.y += share * parts[i].y;
            sum.z += share * parts[i].z;
            sum.w += share * parts[i].w;
          }
        }
        if (is_mine) put_result(tile, head, dimension, sum, 1 / total);
      }
    }
  }

  /// Four splits' sums of a head, zeros past the last one.
  __device__ void load_parts(const Tile& tile, std::uint64_t first, std::uint32_t split,
                             std::uint32_t dimension, float4 (&parts)[4]) const {
    const std::uint32_t size = a_.kv.head_size;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
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
  std::uint32_t* ended_;  // splits of each unit and part
  float2* limits_;
  float* sums_;
  std::int32_t page_ = 0;  // of this lane's turn
  Positions<kType, kSize> positions_;
  Sight<kType, kSize> sight_;
};

}  // namespace attacca::kernels::attending
