// sm90_prompt_roles.cuh: what both ways to attend for prompts share (sm90_prompt_attention.cuh, and
// sm90_prompt_in_order.cuh for the same bits): the producer warpgroup, and the lines of a consumer.
//
// The producer warpgroup fills a ring of stages, in turn with the keys and the values of a step. It
// reads page numbers a block of 512 positions ahead, one lane for 16 positions, also across tiles,
// so that no copy waits for a page number. Stages are announced two copies late, when they have
// arrived.
#pragma once

#include "core/sm90_wgmma.cuh"
#include "kernels/attention/sm90_prompt_tiles.cuh"
#include "kernels/attention/sm90_warpgroups.cuh"
#include "kernels/linear/ring.cuh"

namespace attacca::kernels::prompts {

/// Lies at the start of a block's shared memory.
template <bool kInOrder>
struct Shared {
  using BlockRing = Ring<stages_of(kInOrder), 4, 8>;
  BlockRing ring;
  Plan plan;
};

/// What both roles know. Shared memory begins at a multiple of 1024 bytes, as swizzling needs it.
template <unsigned kSize, bool kInOrder>
class Role {
 protected:
  using State = typename Shared<kInOrder>::BlockRing::State;
  using Bytes = Sizes<kSize, kInOrder>;
  static constexpr unsigned kBlockBytes = kStep * 128;  // 64 dimensions of a stage

  __device__ Role(const MixedAttentionArgs& args, unsigned char* memory)
      : a_(args), memory_(memory), group_(args.heads / args.kv.kv_heads) {}

  __device__ Shared<kInOrder>& shared() const {
    return *reinterpret_cast<Shared<kInOrder>*>(memory_);
  }
  __device__ unsigned char* stage(const State& at) const {
    return memory_ + Bytes::kStagesAt + at.stage * Bytes::kStageBytes;
  }
  /// In order, an instruction takes every other four of 32 dimensions, of queries and of keys. So
  /// these are neighbours in shared memory: where the four dimensions 4 `four` and on lie.
  __device__ static unsigned place_of(unsigned four) {
    return four / 8 * 8 + four % 2 * 4 + four % 8 / 2;
  }
  __device__ Deal deal() const { return Deal(shared().plan, a_.kv.kv_heads, group_); }
  __device__ std::uint32_t first_seen(std::uint32_t position) const {
    return a_.window != 0 && position >= a_.window ? position - a_.window + 1 : 0;
  }
  /// The first step of a tile.
  __device__ std::uint32_t begin_of(const Tile& tile) const {
    return first_seen(tile.position) / kStep * kStep;
  }

  const MixedAttentionArgs& a_;
  unsigned char* memory_;
  std::uint32_t group_;
  bool gave_up_ = false;  // whether this warp gave up waiting for a stage
};

/// Gathers pages. A thread copies the same 16 bytes of every eighth position (of every 16th with
/// small heads), so that its addresses advance by constants.
template <unsigned kSize, bool kInOrder>
class Producer : Role<kSize, kInOrder> {
  using Base = Role<kSize, kInOrder>;
  using Base::a_, Base::gave_up_;
  using typename Base::State;

 public:
  __device__ Producer(const MixedAttentionArgs& args, unsigned char* memory)
      : Base(args, memory),
        piece_(threadIdx.x % kPieces),
        row_(threadIdx.x / kPieces),
        page_bits_(4 + args.kv.page_size / 32) {}

  __device__ void run() {
    Deal deal = Base::deal();
    Tile tile;
    if (!deal.next(tile)) return;
    std::uint32_t at = Base::begin_of(tile);
    std::uint32_t page = load_page(tile, at);
    for (bool has_more = true; has_more;) {
      const std::uint32_t units = units_of(tile, at, page);
      const std::uint32_t first = Base::first_seen(tile.position);
      const std::uint32_t last = tile.last();
      std::uint32_t from = at;
      at += kAhead;
      if (at > last) {
        has_more = deal.next(tile);
        if (has_more) at = Base::begin_of(tile);
      }
      if (has_more) page = load_page(tile, at);
      for (unsigned lane = 0; lane < 32 && from <= last; lane += kGroups, from += kStep) {
        fill<kInOrder>(a_.kv.keys, units, lane, from, first, last);
        fill<false>(a_.kv.values, units, lane, from, first, last);
      }
    }
    attending::cp_async_wait<1>();
    announce();
    attending::cp_async_wait<0>();
    announce();
  }

 private:
  static constexpr unsigned kPieces = kSize / 8;    // 16-byte pieces of a position
  static constexpr unsigned kRows = 128 / kPieces;  // positions that are copied at a time
  static constexpr unsigned kGroups = kStep / 16;   // of 16 positions
  static constexpr std::uint32_t kAhead = 32 * 16;  // positions of a warp's page numbers
  static constexpr unsigned kLate = 2;              // copies between fill and announcement

  /// The page of this lane's 16 positions in a block of 512 that begins at `at`; 0 where the tile
  /// sees none of them.
  __device__ std::uint32_t load_page(const Tile& tile, std::uint32_t at) const {
    const std::uint32_t position = at + threadIdx.x % 32 * 16;
    if (position > tile.last() || position + 15 < Base::first_seen(tile.position)) return 0;
    return static_cast<std::uint32_t>(__ldcg(
        a_.kv.tables + std::uint64_t{tile.slot} * a_.kv.table_stride + (position >> page_bits_)));
  }
  /// Where these 16 positions begin in the pool, in pieces.
  __device__ std::uint32_t units_of(const Tile& tile, std::uint32_t at, std::uint32_t page) const {
    const std::uint32_t inside = (at + threadIdx.x % 32 * 16) & (a_.kv.page_size - 1);
    return (((page * a_.kv.kv_heads + tile.kv_head) << page_bits_) + inside) * kPieces;
  }

  /// Fills the next stage with positions [from, from + kStep). Lanes `lane` and on have their
  /// units. Positions outside of [first, last] are zeros. `kParts`: dimensions go to their
  /// place_of.
  template <bool kParts>
  __device__ void fill(const void* pool, std::uint32_t units, unsigned lane, std::uint32_t from,
                       std::uint32_t first, std::uint32_t last) {
    if (!gave_up_) gave_up_ = !Base::shared().ring.wait_empty(filling_);
    if (!gave_up_) {
      const auto* pieces = static_cast<const uint4*>(pool) + row_ * kPieces + piece_;
      unsigned char* to = to_of(kParts ? Base::place_of(2 * piece_) / 2 : piece_);
      [[maybe_unused]] unsigned char* second = to_of(Base::place_of(2 * piece_ + 1) / 2);
      if constexpr (kParts) {
        to += piece_ % 2 * 8;
        second += piece_ % 2 * 8;
      }
#pragma unroll
      for (unsigned group = 0; group < kGroups; ++group) {
        const uint4* source = pieces + __shfl_sync(~0u, units, lane + group);
#pragma unroll
        for (unsigned row = 0; row < 16; row += kRows) {
          const std::uint32_t position = from + group * 16 + row + row_;
          const bool is_there = position >= first && position <= last;
          const uint4* const eight = source + row * kPieces;
          if constexpr (kParts) {
            sm90::cp_async_8(to + (group * 16 + row) * 128, eight, is_there);
            sm90::cp_async_8(second + (group * 16 + row) * 128,
                             reinterpret_cast<const uint2*>(eight) + 1, is_there);
          } else {
            attending::cp_async(to + (group * 16 + row) * 128, eight, is_there);
          }
        }
      }
    }
    attending::cp_async_commit();
    filling_.advance();
    if (filled_ < kLate) {
      ++filled_;
      return;
    }
    attending::cp_async_wait<kLate>();
    announce();
  }
  /// Where a piece of this thread's first position goes in the stage.
  __device__ unsigned char* to_of(unsigned piece) const {
    return Base::stage(filling_) + piece / 8 * Base::kBlockBytes + row_ * 128 +
           (piece % 8 ^ row_ % 8) * 16;
  }
  /// Announces the oldest stage. REQUIRES: this thread's copies to it have arrived.
  __device__ void announce() {
    sm90::fence_for_wgmma();
    if (!gave_up_) Base::shared().ring.finish_fill(announced_);
    announced_.advance();
  }

  unsigned piece_;  // of a position
  unsigned row_;    // the first
  std::uint32_t page_bits_;
  State filling_;
  State announced_;
  unsigned filled_ = 0;  // up to kLate
};

/// The 64 lines of a consumer warpgroup. Line i of a tile is row i / group and head i % group.
/// Warps of the second warpgroup have lines 64 and on. `kRounded`: queries are multiplied and
/// rounded already.
template <unsigned kSize, bool kInOrder, bool kRounded = false>
class Lines : protected Role<kSize, kInOrder> {
  using Base = Role<kSize, kInOrder>;

 protected:
  using Base::a_, Base::gave_up_, Base::group_;
  using typename Base::State;
  static constexpr unsigned kLines = 64;
  static constexpr unsigned kFirstTurn = 1;       // barriers: each warpgroup's turn,
  static constexpr unsigned kFirstWarpgroup = 3;  // and its own threads
  static constexpr unsigned kScores = kStep / 2;  // of a thread
  static constexpr unsigned kSums = kSize / 2;

  using Query = std::conditional_t<kRounded, std::uint16_t, float>;
  static constexpr unsigned kLoaded = sizeof(float4) / sizeof(Query);  // dimensions at a time
  /// This warp's 16 lines.
  using Queries = float4[16 * kSize / kLoaded / 32];

  __device__ Lines(const MixedAttentionArgs& args, unsigned char* memory)
      : Base(args, memory),
        warpgroup_(threadIdx.x / 128 - 1),
        warp_(threadIdx.x / 32 % 4),
        lane_(threadIdx.x % 32),
        queries_(memory + Base::Bytes::kHeaderBytes + warpgroup_ * (Base::Bytes::kQueryBytes / 2)) {
    values_state_.advance();
  }

  /// Calls attend(tile, next, queries) for each tile: `queries` are those of the tile, then of the
  /// next one, which has no rows if there is none.
  template <class Attend>
  __device__ void each_tile(const Attend& attend) {
    Deal deal = Base::deal();
    Tile tile;
    bool has_more = deal.next(tile);
    Queries queries;
    load_queries(tile, queries);
    if (warpgroup_ == 1) sm90::arrive_some<256>(kFirstTurn);
    while (has_more) {
      Tile next;
      has_more = deal.next(next);
      if (!has_more) next.rows = 0;
      attend(tile, next, queries);
      tile = next;
    }
    if (warpgroup_ == 0) sm90::sync_some<256>(kFirstTurn);  // leaves no arrival behind
  }

  // Stages. A warp that gave up goes on with whatever lies in them, since wgmma needs all warps of
  // a warpgroup. Keys and values are in every other stage.

  __device__ void wait_full(const State& at) {
    if (!gave_up_) gave_up_ = !Base::shared().ring.wait_full(at);
  }
  __device__ void release(State& at) {
    if (!gave_up_) Base::shared().ring.release(at, 0);
    at.advance();
    at.advance();
  }
  __device__ void sync_warpgroup() const { sm90::sync_some<128>(kFirstWarpgroup + warpgroup_); }

  // A thread has lines lane / 4 and lane / 4 + 8 of its warp, and of these scores 4 i + 2 half and
  // the next, for positions 8 i + lane % 4 * 2 and the next.

  __device__ bool sees_all(std::uint32_t at) const {
    return at + kStep - 1 <= least_ && at >= most_first_;
  }
  __device__ void mask(float (&scores)[kScores], std::uint32_t at) const {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const auto last = static_cast<int>(position_[half] - at);
      const auto first = static_cast<int>(Base::first_seen(position_[half]) - at);
#pragma unroll
      for (unsigned i = 0; i < kScores / 2; ++i) {
        const auto place = static_cast<int>(i / 2 * 8 + lane_ % 4 * 2 + i % 2);
        if (place > last || place < first) scores[i / 2 * 4 + 2 * half + i % 2] = -INFINITY;
      }
    }
  }

  __device__ std::uint32_t row_of(std::uint32_t line) const {
    return (warpgroup_ * kLines + line) / group_;
  }
  __device__ void find_positions(const Tile& tile) {
    const auto position = [&](std::uint32_t line) {
      return tile.position + min(row_of(line), tile.rows - 1);
    };
#pragma unroll
    for (unsigned half = 0; half < 2; ++half)
      position_[half] = position(warp_ * 16 + lane_ / 4 + half * 8);
    least_ = position(0);
    most_first_ = Base::first_seen(position(kLines - 1));
  }
  /// Eight dimensions of a line of this warpgroup, in queries and in results.
  __device__ unsigned char* eight(unsigned line, unsigned piece) const {
    return queries_ + piece / 8 * (kLines * 128) + line * 128 + (piece % 8 ^ line % 8) * 16;
  }
  /// Calls use(i, line, part) for each of kParts of each of this warp's 16 lines; `i` counts the
  /// calls of a lane.
  template <unsigned kParts, class Use>
  __device__ void each_part(const Use& use) const {
#pragma unroll
    for (unsigned i = 0; i < 16 * kParts / 32; ++i) {
      const unsigned index = i * 32 + lane_;
      use(i, warp_ * 16 + index / kParts, index % kParts);
    }
  }
  /// Where a line of the tile begins, in elements of rows that are `stride` apart.
  __device__ std::uint64_t element_of(const Tile& tile, unsigned line, std::uint32_t row,
                                      std::uint32_t stride) const {
    const std::uint32_t head = tile.kv_head * group_ + warpgroup_ * kLines + line - row * group_;
    return std::uint64_t{tile.row + row} * stride + head * kSize;
  }
  __device__ void load_queries(const Tile& tile, Queries& to) const {
    constexpr std::uint32_t kInFloat = sizeof(float) / sizeof(Query);
    each_part<kSize / kLoaded>([&](unsigned i, unsigned line, unsigned part) {
      const std::uint32_t row = row_of(line);
      to[i] = {};
      if (row < tile.rows)
        to[i] = __ldcg(reinterpret_cast<const float4*>(
            reinterpret_cast<const Query*>(a_.q) +
            element_of(tile, line, row, a_.q_stride * kInFloat) + part * kLoaded));
    });
  }
  /// Stores the sums, multiplied by factor_of(half): through shared memory, so that rows are
  /// written whole.
  template <class FactorOf>
  __device__ void store_results(const Tile& tile, const float (&sums)[kSums],
                                const FactorOf& factor_of) const {
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      const float factor = factor_of(half);
      const unsigned line = warp_ * 16 + lane_ / 4 + half * 8;
#pragma unroll
      for (unsigned i = 0; i < kSize / 8; ++i)
        *reinterpret_cast<std::uint32_t*>(eight(line, i) + lane_ % 4 * 4) =
            attending::pair_of<true>(sums[4 * i + 2 * half] * factor,
                                     sums[4 * i + 2 * half + 1] * factor);
    }
    __syncwarp();
    each_part<kSize / 8>([&](unsigned, unsigned line, unsigned part) {
      const std::uint32_t row = row_of(line);
      if (row >= tile.rows) return;
      std::uint16_t* y = a_.y + element_of(tile, line, row, a_.heads * kSize) + part * 8;
      *reinterpret_cast<uint4*>(y) = *reinterpret_cast<const uint4*>(eight(line, part));
    });
  }

  unsigned warpgroup_;
  unsigned warp_;  // in its warpgroup
  unsigned lane_;
  unsigned char* queries_;  // of this warpgroup; later its results on their way to memory
  State keys_state_;
  State values_state_;
  std::uint32_t position_[2];  // of this thread's lines
  std::uint32_t least_;        // position of the warpgroup's lines
  std::uint32_t most_first_;   // first position that a line of the warpgroup sees
};

}  // namespace attacca::kernels::prompts
