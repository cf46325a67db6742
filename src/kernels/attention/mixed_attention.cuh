// mixed_attention.cuh: the CUDA body of mixed_attention.hpp: plans the tiles of a step and runs
// them. Every block finds the runs of the step for itself. First come chunks of neighbouring rows,
// the last ones first since they see most, then the splits of rows that are alone in their slot. In
// f32 each neighbouring row is a tile that runs its splits one after another. Chunks are computed
// in attention_chunks.cuh, at fixed splits in attention_fixed_chunks.cuh, and rows in
// attention_rows.cuh.
#pragma once

#include <type_traits>

#include "kernels/attention/attention_chunks.cuh"
#include "kernels/attention/attention_fixed_chunks.cuh"
#include "kernels/attention/attention_rows.cuh"
#include "kernels/attention/mixed_attention.hpp"
#include "kernels/attention/prompt_runs.hpp"

namespace attacca::kernels::attending {

/// The tiles of a mixed step. A run, all rows of a slot, is cut into chunks at each multiple of the
/// chunk size in positions, so a row and its neighbours determine its chunk. Where neighbours do
/// not join there is one item for each row and part of its heads instead. `kLeaves`: long runs have
/// none. A block computes one of `kLineParts` of a chunk's lines. All threads of a block call all
/// functions.
struct MixedPlanShared {
  std::uint32_t first_chunks[kThreads];  // before each thread's runs
  std::uint32_t first_tiles[kThreads];
  std::uint32_t warp_sums[2][kThreads / 32];
};
template <class CutType, bool kJoins, unsigned kLineParts = 1, bool kLeaves = false>
class MixedPlan {
 public:
  using Shared = MixedPlanShared;

  /// `begins` has room for one word more than the step can have runs.
  __device__ MixedPlan(const MixedAttentionArgs& args, const CutType& cut, Shared& shared,
                       std::uint32_t* begins)
      : positions_(args.positions),
        slots_(args.slots),
        cut_(cut),
        chunk_rows_(kLines / cut.parts.group),
        shared_(shared),
        begins_(begins) {}

  /// Finds the runs and counts their tiles. `scratch` has two words for every 32 rows. Ends with a
  /// barrier.
  __device__ void make(std::uint32_t rows, std::uint32_t* scratch) {
    list_runs(rows, scratch, scratch + ceil_div(rows, 32));
    each_ = ceil_div(runs_, kThreads);
    std::uint32_t chunks = 0;
    std::uint32_t tiles = 0;
    const std::uint32_t from = min(threadIdx.x * each_, runs_);
    const std::uint32_t to = min(from + each_, runs_);
    for (std::uint32_t run = from; run < to; ++run) {
      const Counts counts = count(run);
      chunks += counts.chunks;
      tiles += counts.tiles;
    }
    const Prefix chunk_sum = prefix_sum<kThreads>(chunks, shared_.warp_sums[0]);
    const Prefix tile_sum = prefix_sum<kThreads>(tiles, shared_.warp_sums[1]);
    chunks_ = chunk_sum.all;
    tiles_ = tile_sum.all;
    shared_.first_chunks[threadIdx.x] = chunk_sum.before;
    shared_.first_tiles[threadIdx.x] = tile_sum.before;
    __syncthreads();
  }

  __device__ const CutType& cut() const { return cut_; }
  __device__ std::uint32_t count() const { return chunks_ + tiles_; }
  __device__ bool is_chunk(std::uint32_t index) const { return index < chunks_; }
  /// The rank of a tile among those of single rows. It is the index of its partial results in the
  /// workspace.
  __device__ std::uint32_t rank(std::uint32_t index) const { return index - chunks_; }

  __device__ Chunk chunk(std::uint32_t index) const {
    const Item item = find(shared_.first_chunks, chunks_ - 1 - index, true);
    const std::uint32_t nth = item.rank / (cut_.kv_heads * kLineParts);
    const std::uint32_t part = item.rank - nth * (cut_.kv_heads * kLineParts);
    const std::uint32_t begin = begins_[item.run];
    const std::uint32_t first = position(begin);
    Chunk chunk;
    chunk.position = nth == 0 ? first : (first / chunk_rows_ + nth) * chunk_rows_;
    chunk.row = begin + (chunk.position - first);
    chunk.rows = min(chunk_rows_ - chunk.position % chunk_rows_, begins_[item.run + 1] - chunk.row);
    chunk.slot = slot(begin);
    chunk.kv_head = part / kLineParts;
    chunk.first_line = part % kLineParts * (kLines / kLineParts);
    return chunk;
  }
  /// The first split of a row that is computed whole, for some of its heads.
  __device__ Tile whole(std::uint32_t index) const {
    const Item item = find(shared_.first_chunks, chunks_ - 1 - index, true);
    const std::uint32_t nth = item.rank / cut_.groups();
    const std::uint32_t begin = begins_[item.run];
    const std::uint32_t at = position(begin) + nth;
    const std::uint32_t group = item.rank - nth * cut_.groups();
    return cut_.tile(begin + nth, slot(begin), at, group * cut_.splits.count(cut_.span(at)));
  }
  __device__ auto tile(std::uint32_t index) const {
    const Item item = find(shared_.first_tiles, rank(index), false);
    const std::uint32_t row = begins_[item.run];
    return cut_.tile(row, slot(row), position(row), item.rank);
  }

 private:
  struct Counts {
    std::uint32_t chunks;
    std::uint32_t tiles;
  };
  struct Item {
    std::uint32_t run;
    std::uint32_t rank;  // among the run's chunks or tiles
  };

  /// Bypasses L1, which may hold values of an earlier step.
  __device__ std::uint32_t slot(std::uint32_t row) const {
    return static_cast<std::uint32_t>(__ldcg(slots_ + row));
  }
  __device__ std::uint32_t position(std::uint32_t row) const {
    return static_cast<std::uint32_t>(__ldcg(positions_ + row));
  }
  /// Lists the rows where runs begin, and the end of the last one. `bits` gets a bit for each row
  /// that begins a run, `firsts` the runs before each 32 rows. Ends with a barrier.
  __device__ void list_runs(std::uint32_t rows, std::uint32_t* bits, std::uint32_t* firsts) {
    const unsigned lane = threadIdx.x % 32;
    constexpr unsigned kAtOnce = 8;  // loads under way
    constexpr std::uint32_t kNone = ~0u;
    for (std::uint32_t first = threadIdx.x; first - lane < rows; first += kAtOnce * kThreads) {
      std::uint32_t mine[kAtOnce], before[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const std::uint32_t row = first + i * kThreads;
        mine[i] = row < rows ? slot(row) : kNone;
        before[i] = row < rows && row != 0 ? slot(row - 1) : kNone;
      }
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const std::uint32_t row = first + i * kThreads;
        const std::uint32_t begins = __ballot_sync(~0u, mine[i] != before[i]);
        if (lane == 0 && row < rows) bits[row / 32] = begins;
      }
    }
    __syncthreads();
    const std::uint32_t words = ceil_div(rows, 32);
    const std::uint32_t each = ceil_div(words, kThreads);
    const std::uint32_t from = min(threadIdx.x * each, words);
    const std::uint32_t to = min(from + each, words);
    std::uint32_t mine = 0;
    for (std::uint32_t word = from; word < to; ++word) mine += count_bits(bits[word]);
    const Prefix sum = prefix_sum<kThreads>(mine, shared_.warp_sums[0]);
    std::uint32_t before = sum.before;
    for (std::uint32_t word = from; word < to; ++word) {
      firsts[word] = before;
      before += count_bits(bits[word]);
    }
    __syncthreads();
    for (std::uint32_t row = threadIdx.x; row < rows; row += kThreads) {
      const std::uint32_t word = bits[row / 32];
      if ((word >> lane & 1) != 0)
        begins_[firsts[row / 32] + count_bits(word & ((1u << lane) - 1))] = row;
    }
    runs_ = sum.all;
    if (threadIdx.x == 0) begins_[runs_] = rows;
    __syncthreads();
  }
  __device__ Counts count(std::uint32_t run) const {
    const std::uint32_t row = begins_[run];
    const std::uint32_t rows = begins_[run + 1] - row;
    if (kLeaves && rows >= kLongRun) return {0, 0};
    if (rows == 1) return {0, cut_.tiles(position(row))};
    if (!kJoins) return {rows * cut_.groups(), 0};
    const std::uint32_t first = position(row);
    const std::uint32_t chunks = (first + rows - 1) / chunk_rows_ - first / chunk_rows_ + 1;
    return {chunks * cut_.kv_heads * kLineParts, 0};
  }
  /// The run that has chunk (or tile) `index`. Each warp searches for itself.
  __device__ Item find(const std::uint32_t* firsts, std::uint32_t index, bool is_chunk) const {
    const unsigned lane = threadIdx.x % 32;
    const std::uint32_t thread = find_last(firsts, kThreads, index);
    std::uint32_t before = firsts[thread];
    const std::uint32_t end = min((thread + 1) * each_, runs_);
    for (std::uint32_t from = thread * each_; from < end; from += 32) {
      const Counts counts = from + lane < end ? count(from + lane) : Counts{0, 0};
      const std::uint32_t mine = is_chunk ? counts.chunks : counts.tiles;
      std::uint32_t sum = mine;
#pragma unroll
      for (unsigned step = 1; step < 32; step *= 2) {
        const std::uint32_t other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
      }
      const std::uint32_t has_it = __ballot_sync(~0u, before + sum > index);
      if (has_it != 0) {
        const std::uint32_t at = lowest_bit(has_it);
        return {from + at, index - before - __shfl_sync(~0u, sum - mine, at)};
      }
      before += __shfl_sync(~0u, sum, 31);
    }
    return {0, 0};  // not reached: index is below the total
  }

  const std::int32_t* positions_;
  const std::int32_t* slots_;
  CutType cut_;
  std::uint32_t chunk_rows_;
  Shared& shared_;
  std::uint32_t* begins_;  // [runs_ + 1]
  std::uint32_t runs_ = 0;
  std::uint32_t each_ = 0;  // runs of a thread
  std::uint32_t chunks_ = 0;
  std::uint32_t tiles_ = 0;
};

/// `kFixed`: rows are split at fixed positions. `kLeaves`: rows of long runs are left out.
template <KvType kType, unsigned kSize, bool kFixed, bool kLeaves = false>
class MixedBlock {
 public:
  /// Whether neighbours of one slot are computed together.
  static constexpr bool kJoins = kType != KvType::f32;
  using Rows = RowTiles<
      MixedAttentionArgs, kType, kSize,
      RowWay{.is_fixed = kFixed, .loads_ahead = kJoins && (kSize <= 128), .finds_own_page = true}>;
  using Tile = typename Rows::Tile;
  static constexpr KvType kChunkType = kJoins ? kType : KvType::bf16;
  using Chunks = std::conditional_t<kFixed, FixedChunkTiles<MixedAttentionArgs, kChunkType, kSize>,
                                    ChunkTiles<MixedAttentionArgs, kChunkType, kSize>>;
  struct Nothing {};

  struct Shared {
    union {
      typename Rows::Shared rows;
      std::conditional_t<kJoins, typename Chunks::Shared, Nothing> chunks;
    };
    MixedPlanShared plan;
    std::uint32_t next;
  };

  __device__ MixedBlock(const MixedAttentionArgs& args, uint4* memory)
      : a_(args), shared_(*reinterpret_cast<Shared*>(memory)) {}

  __device__ void run(Thread& t) {
    const HeadParts parts(a_.heads, a_.kv.kv_heads);
    if constexpr (kFixed) {
      const FixedCut cut{parts, a_.kv.kv_heads, a_.window, 16};
      MixedPlan<FixedCut, kJoins, kLines / Chunks::kBlockLines, kLeaves> plan(a_, cut, shared_.plan,
                                                                              begins());
      make(t, plan);
      run_tiles(plan);
    } else {
      const Cut cut{parts, a_.kv.kv_heads, a_.window, splits_of(!kJoins, 16)};
      MixedPlan<Cut, kJoins, 1, kLeaves> plan(a_, cut, shared_.plan, begins());
      make(t, plan);
      run_tiles(plan);
    }
  }

 private:
  /// The plan's list of runs lies behind the other shared memory.
  __device__ std::uint32_t* begins() const {
    return reinterpret_cast<std::uint32_t*>(&shared_ + 1);
  }
  template <class Plan>
  __device__ void make(Thread& t, Plan& plan) {
    t.wait_for_producers();
    plan.make(min(__ldcg(a_.rows.count), a_.rows.capacity),
              reinterpret_cast<std::uint32_t*>(&shared_));
    t.release_consumers();
  }
  template <class Plan>
  __device__ void run_tiles(const Plan& plan) {
    auto* claimed = static_cast<std::uint32_t*>(a_.workspace);
    for (std::uint32_t index = blockIdx.x; index < plan.count();) {
      std::uint32_t claim = 0;
      if (threadIdx.x == 0) claim = atomic_inc_relaxed(claimed, plan.count() - 1);
      if (!plan.is_chunk(index))
        run_row(plan.tile(index), plan.rank(index));
      else if constexpr (kFixed)
        Chunks(a_, shared_.chunks, plan.cut()).run(plan.chunk(index));
      else if constexpr (kJoins)
        Chunks(a_, shared_.chunks, a_.heads / a_.kv.kv_heads).run(plan.chunk(index));
      else
        run_whole_row(plan.whole(index));
      if (threadIdx.x == 0) shared_.next = gridDim.x + claim;
      __syncthreads();
      index = shared_.next;
    }
  }

  /// A row's own position is in its page like the others.
  struct OwnPosition {
    const PagedKv& kv;
    std::uint64_t offset;  // in bytes
    __device__ void load_key(Positions<kType, kSize>& to) const {
      to.load_keys(kv.template keys_as<unsigned char>() + offset, kv.head_size, 0, 1);
    }
    __device__ void load_value(Positions<kType, kSize>& to) const {
      to.load_values(kv.template values_as<unsigned char>() + offset, kv.head_size, 0, 1);
    }
  };
  /// At fixed splits it is loaded with them.
  struct StoredPosition {
    __device__ void put_key(Positions<kType, kSize>&, unsigned) const {}
    __device__ void put_value(Positions<kType, kSize>&, unsigned) const {}
  };

  __device__ void run_row(const Tile& tile, std::uint32_t rank) {
    Rows rows(a_, shared_.rows);
    rows.start(tile, rows.load_page(tile));
    store_queries(tile);
    __syncthreads();
    if constexpr (kFixed)
      rows.attend_fixed(tile, StoredPosition{}, tile.slot);
    else
      rows.attend(tile, own_position(tile));
    rows.store_partials(tile);
    __syncthreads();
    if constexpr (kFixed)
      rows.finish_fixed(tile, tile.slot);
    else
      rows.finish(tile, rank, tile.slot);
  }
  /// Runs all splits of a row as if several blocks had them. The first positions of the next split
  /// are loaded while the warps' partial results of this one are combined. Memory that this reads
  /// is overwritten only behind the barrier at the top.
  __device__ void run_whole_row(Tile tile) {
    Rows rows(a_, shared_.rows);
    rows.keep_splits();
    rows.start(tile, rows.load_page(tile));
    store_queries(tile);
    for (;;) {
      __syncthreads();
      rows.attend(tile, own_position(tile));
      const Tile attended = tile;
      if (!attended.is_last_split()) {
        tile = attended.next_split();
        rows.start(tile, rows.load_page(tile));
      }
      rows.store_partials(attended);
      __syncthreads();
      rows.keep(attended);
      if (attended.is_last_split()) break;
    }
    __syncthreads();
    rows.finish_kept(tile);
  }

  __device__ OwnPosition own_position(const Tile& tile) const {
    const std::uint64_t at = a_.kv.offset(tile.slot, tile.position, tile.kv_head);
    return {a_.kv, at * kv_element_bytes(kType)};
  }
  __device__ void store_queries(const Tile& tile) {
    const float factor = a_.scale * 1.4426950408889634f;
    for (unsigned head = threadIdx.x / 32; head < tile.heads; head += kWarps) {
      const float* q = a_.q + std::uint64_t{tile.row} * a_.q_stride +
                       std::uint64_t{tile.first_head + head} * a_.kv.head_size;
      for (unsigned at = threadIdx.x % 32 * 2; at < kSize; at += 64) {
        const float2 two =
            at < a_.kv.head_size ? *reinterpret_cast<const float2*>(q + at) : float2{};
        shared_.rows.queries.template store_pair<is_bfloat(kType)>(
            head, at, product<kFixed>(two.x, factor), product<kFixed>(two.y, factor));
      }
    }
  }

  const MixedAttentionArgs& a_;
  Shared& shared_;
};

}  // namespace attacca::kernels::attending
