// sm90_tiled_linear.cuh: the CUDA body of sm90_tiled_linear.hpp: a warp-specialized GEMM with wgmma
// for many rows of x. A pair (a cluster of two blocks) computes tiles of 256 rows of weights by 64,
// 128 or 256 rows of x, or tall tiles of 512 by 64. In each block one producer thread has TMA fill
// a ring of stages, 64 columns each, with the block's half of the weights; each block multicasts
// half of x to both. Two consumer warpgroups multiply straight from the stages.
//
// Where whole tiles would leave SMs idle, tiles are split over their columns too: each pair takes
// an equal run of stages (stream-K), or each tile equally many pairs (split-K). A pair stores its
// partial sums of a split tile in the workspace. In the end each pair of a split tile reduces a
// slice of it, always in the same order. That requires all blocks to be resident: there is at most
// one for each SM, and the library refuses the kernel where they may not fit.
//
// Where a row's bits may not depend on the batch, the tile is summed up in the order of
// sum_order.cuh: class by class, and tiles are split between classes only. After each class a
// warpgroup's wgmma drains. The second warpgroup begins a tile one stage behind the first, so that
// one multiplies while the other drains.
//
// The epilogue is in sm90_tiled_epilogue.cuh, or sm90_rotating_epilogue.cuh for queries, keys and
// values; what depends on the type of the weights is in sm90_tiled_weights.cuh.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <type_traits>

#include "kernels/linear/sm90_pair_ring.cuh"
#include "kernels/linear/sm90_rotating_epilogue.cuh"
#include "kernels/linear/sm90_tile_scheduler.cuh"
#include "kernels/linear/sm90_tiled_epilogue.cuh"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/sm90_tiled_weights.cuh"
#include "kernels/linear/sm90_tma.cuh"
#include "kernels/linear/sum_order.cuh"

namespace attacca::kernels::tiled {

/// Computes tiles of `kRows` rows of x and `kHeight` times kPairRows rows of weights. Tall tiles
/// (`kHeight` 2) are never split. `kInOrder`: sums up in the order of sum_order.cuh. `kType` is
/// that of the weights. `kRotates`: with the epilogue for queries, keys and values alone.
template <unsigned kRows, unsigned kHeight, bool kInOrder, TensorType kType, bool kRotates>
class Block {
 public:
  using Sizes = tiled::Sizes<kRows, kHeight, kType>;
  static constexpr bool kMaySplit = kHeight == 1;
  static constexpr unsigned kStageBytes = Sizes::kStageBytes;
  static constexpr unsigned kStages = Sizes::kStages;
  static constexpr unsigned kWeightBytes = Sizes::kWeightBytes;
  static constexpr unsigned kXBytes = Sizes::kXBytes;
  static constexpr unsigned kFirstConsumer = 128;
  static constexpr unsigned kConsumerThreads = 256;
  static constexpr unsigned kOctets = kRows / 8;  // octets of rows of x
  static constexpr unsigned kSums = kRows / 2;    // accumulators of a thread
  /// Stages that take as long as a partial sum is stored and read, which tiles of 128 rows need to
  /// know in order. Estimated from 256 rows of 8B, whose layer takes 1.3 us for each MB of partial
  /// sums. Tiles of 64 rows wait for weights, which all SMs should read.
  static constexpr unsigned kPartStages = kRows == 128 ? 20 : 0;
  /// From 128 rows on, a pair with parts of two tiles costs more than SMs that idle
  /// (docs/trials.md).
  static constexpr bool kSplitsEvenly = !kInOrder && kRows > 64;
  /// Tiles of 256 rows have 128 accumulators a thread. In order, the sums of the classes so far are
  /// in registers too. The consumers take registers of the producer then.
  static constexpr bool kTakesRegisters = (kInOrder && kHeight * kSums == 64) || kRows == 256;
  static constexpr unsigned kProducerRegisters = kHeight == 1 ? 56 : 40;  // of a thread
  static constexpr unsigned kConsumerRegisters = kHeight == 1 ? 224 : 232;

  __device__ explicit Block(const TiledLinearArgs& args)
      : a_(args),
        p_(args.product),
        count_(min(*args.product.rows.count, args.product.rows.capacity)),
        x_tiles_((count_ + kRows - 1) / kRows),
        rank_(blockIdx.x % 2),
        stages_((args.product.w.columns + kStep - 1) / kStep),
        scheduler_(
            x_tiles_ * ((args.weight_tiles() + kHeight - 1) / kHeight),
            kInOrder ? min((stages_ + kRunStages - 1) / kRunStages, sum_order::kClasses) : stages_,
            kMaySplit, kSplitsEvenly, stages_, kPartStages) {}

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) {
      ring().init();
      shared().partials_seen[0] = shared().partials_seen[1] = 0;
    }
    synchronize_pair();
    if (threadIdx.x != 0) t.release_consumers();  // the producer thread does so at its end
    if (threadIdx.x < kFirstConsumer) {
      if constexpr (kTakesRegisters)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
      if (threadIdx.x == 0)
        produce(t);
      else if (threadIdx.x >= 32 && p_.squares)
        find_factors(t);
    } else {
      if constexpr (kTakesRegisters)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
      t.wait_for_producers();
      while (scheduler_.has_more()) compute(scheduler_.next());
      if constexpr (kMaySplit) reduce_split_tiles();
    }
    synchronize_pair();  // a block may not exit while its peer still writes to its shared memory
    // Only the threads that wait for partial sums can report their count; the others may pass
    // either.
    ring().report(t, shared().partials_seen[min(consumer_thread() / 32, 1u)],
                  a_.patience_nanoseconds);
  }

 private:
  using BlockRing = PairRing<kStages, 8>;
  using State = typename BlockRing::State;
  using Scheduler = TileScheduler<kInOrder>;
  using Segment = typename Scheduler::Segment;
  using Split = typename Scheduler::Split;
  static constexpr unsigned kRunStages = sum_order::kRun / kStep;
  static constexpr unsigned kChunkStages = sum_order::kChunk / kStep;
  static_assert(slots_of_pair(true) == sum_order::kClasses);
  static constexpr unsigned kPass = Sizes::kPassRows / 8;  // octets of one epilogue pass
  using Epilogue =
      std::conditional_t<kRotates, RotatingEpilogue<kPass>, TileEpilogue<kPass, kInOrder>>;
  static_assert(!(kRotates && kInOrder));

  __device__ std::uint32_t first_row(std::uint32_t tile) const { return tile % x_tiles_ * kRows; }
  /// Index of a box of weights: this block's half of a tile is one box, or two of a tall tile.
  __device__ std::uint32_t box(std::uint32_t tile, unsigned part) const {
    return (tile / x_tiles_ * 2 + rank_) * kHeight + part;
  }
  /// Calls use(segment) for each split tile of this pair.
  template <class Use>
  __device__ void each_split(const Use& use) {
    scheduler_.rewind();
    while (scheduler_.has_more()) {
      const Segment s = scheduler_.next();
      if (!scheduler_.is_whole(s)) use(s);
    }
  }

  /// Calls use(column) for each stage of a segment, until it returns false.
  template <class Use>
  __device__ bool each_stage(const Segment& s, const Use& use) const {
    if constexpr (!kInOrder) {
      for (std::uint32_t k = s.begin; k < s.end; ++k)
        if (!use(k * kStep)) return false;
      return true;
    }
    const std::uint32_t chunks = sum_order::chunks_of(p_.w.columns);
    const std::uint32_t row = s.tile / x_tiles_ * (kHeight * kPairRows);
    for (std::uint32_t c = s.begin; c < s.end; ++c) {
      std::uint32_t chunk = sum_order::first_chunk(row, chunks);
      for (std::uint32_t i = 0; i < chunks; ++i) {
        const std::uint32_t first = chunk * kChunkStages + c * kRunStages;
        for (std::uint32_t k = first; k < min(first + kRunStages, stages_); ++k)
          if (!use(k * kStep)) return false;
        if (++chunk == chunks) chunk = 0;
      }
    }
    return true;
  }
  /// Stages of a unit.
  __device__ std::uint32_t stages_of(std::uint32_t unit) const {
    if constexpr (!kInOrder) return 1;
    const std::uint32_t rest = stages_ % kChunkStages;
    const std::uint32_t before = min(unit * kRunStages, rest);
    return stages_ / kChunkStages * kRunStages + min(rest - before, kRunStages);
  }

  /// The producer thread. Weights do not depend on the kernels before, so they are requested early.
  __device__ void produce(WaitingThread& t) {
    prefetch_map(a_.w_map);
    prefetch_map(a_.x_map);
    State state;
    unsigned early = 0;
    while (scheduler_.has_more() && early < kStages) {
      const Segment s = scheduler_.next();
      each_stage(s, [&](std::uint32_t column) {
        if (early == kStages) return false;
        if (begin_stage(state, s.tile, column)) ++early;  // at first every stage is empty
        state.advance();
        return true;
      });
    }
    t.wait_for_producers();
    state = {};
    unsigned filled = 0;
    for (scheduler_.rewind(); scheduler_.has_more();) {
      const Segment s = scheduler_.next();
      const bool all = each_stage(s, [&](std::uint32_t column) {
        if (filled >= kStages && !begin_stage(state, s.tile, column)) return false;
        copy_to_pair(ring().full(state), stage(state) + kWeightBytes + rank_ * (kXBytes / 2),
                     a_.x_map, column, first_row(s.tile) + rank_ * (kRows / 2));
        state.advance();
        ++filled;
        return true;
      });
      if (!all) return;
    }
    t.release_consumers();
  }
  /// Requests the weights of a stage. Returns false if it did not become free.
  __device__ bool begin_stage(const State& at, std::uint32_t tile, std::uint32_t column) {
    if (!ring().wait_empty(at)) return false;
    ring().expect(at, kStageBytes);
    // With one tile of x, weights are read once. Maps count elements of two bytes.
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part)
      copy_weights(ring().full(at), stage(at) + part * Sizes::kBoxBytes, a_.w_map,
                   column * block_shape(kType).bytes / 2, box(tile, part) * a_.block_octets(),
                   x_tiles_ == 1 ? kEvictFirst : kEvictNormal);
    return true;
  }

  // Three warps find each row's norm factor, tile by tile in the order of the epilogues.

  __device__ void find_factors(WaitingThread& t) {
    t.wait_for_producers();
    std::uint32_t known = ~0u;
    const auto find = [&](const Segment& s) {
      if (first_row(s.tile) != known) find_factors_from(first_row(s.tile));
      known = first_row(s.tile);
      arrive<kFactorsReady>();
      sync<kFactorsRead>();
    };
    while (scheduler_.has_more()) {
      const Segment s = scheduler_.next();
      if (scheduler_.is_whole(s)) find(s);
    }
    each_split(find);
  }
  /// Four lanes add up the squares of each row, in the order of sum_order::norm_factor: a lane has
  /// two fours of the 32 sums, which are 16 sums apart.
  __device__ void find_factors_from(std::uint32_t base) {
    const std::uint32_t quads = p_.w.columns / Residual::kPart / 4;
    const unsigned thread = threadIdx.x - 32;
    for (std::uint32_t first = 0; first < kRows && base + first < count_; first += 24) {
      const std::uint32_t row = first + thread / 4;
      float4 low{}, high{};
      if (row < kRows && base + row < count_) {
        const auto* squares =
            reinterpret_cast<const float4*>(p_.squares + std::uint64_t{base + row} * quads * 4);
#pragma unroll 4
        for (std::uint32_t i = thread % 4; i < quads; i += 8) {
          low = plus(low, squares[i]);
          if (i + 4 < quads) high = plus(high, squares[i + 4]);
        }
      }
      low = plus(low, high);
      low = plus(low, of_lane(low, 2));
      low = plus(low, of_lane(low, 1));
      const float sum = __fadd_rn(__fadd_rn(low.x, low.z), __fadd_rn(low.y, low.w));
      if (thread % 4 == 0 && row < kRows)
        shared().factors[row] = sum_order::norm_factor(sum, p_.w.columns, p_.epsilon);
    }
  }
  __device__ static float4 plus(const float4& a, const float4& b) {
    return {__fadd_rn(a.x, b.x), __fadd_rn(a.y, b.y), __fadd_rn(a.z, b.z), __fadd_rn(a.w, b.w)};
  }
  __device__ static float4 of_lane(const float4& v, unsigned distance) {
    return {__shfl_xor_sync(~0u, v.x, distance), __shfl_xor_sync(~0u, v.y, distance),
            __shfl_xor_sync(~0u, v.z, distance), __shfl_xor_sync(~0u, v.w, distance)};
  }

  using Sums = float[kHeight][kSums];
  using Weights = StageWeights<kHeight, kType>;

  __device__ void compute(const Segment& s) {
    if constexpr (kMaySplit && kInOrder)
      if (s.begin != 0) return leave_classes(s);
    const bool is_whole = scheduler_.is_whole(s);
    Sums sums;
    Epilogue epilogue = epilogue_of(s.tile, 0, kOctets);
    if (is_whole) epilogue.load_operands(0);
    const typename Weights::RowScales scales(a_, box(s.tile, 0) * 2 + warpgroup());
    if constexpr (kInOrder)
      add_up_classes(s, sums);
    else
      multiply_stages(s.end - s.begin, sums);
    scales.apply(sums);
    if constexpr (kMaySplit)
      if (!is_whole) {
        const Split split = scheduler_.split(s.tile);
        store_partials(
            scheduler_.slot(s.tile, split, kInOrder ? 0 : scheduler_.pair() - split.first),
            sums[0]);
        return count_partials(s, split);
      }
    if (p_.squares) sync<kFactorsReady>();
    apply_whole(epilogue, sums[0]);
#pragma unroll
    for (unsigned part = 1; part < kHeight; ++part) {
      Epilogue next = epilogue_of(s.tile, part, kOctets);
      next.load_operands(0);
      apply_whole(next, sums[part]);
    }
    if (p_.squares) arrive<kFactorsRead>();
  }
  /// More than two passes are a loop, which keeps their code small; so accumulators move down. A
  /// pass that rotates has more code, so two are a loop too.
  __device__ static void apply_whole(Epilogue& epilogue, float (&sums)[kSums]) {
#pragma unroll(kOctets / kPass == 2 && !kRotates ? 2 : 1)
    for (unsigned octet = 0; octet < kOctets; octet += kPass) {
      epilogue.apply(sums, octet);
#pragma unroll
      for (unsigned i = 0; i < kSums - 4 * kPass; ++i) sums[i] = sums[i + 4 * kPass];
    }
  }
  /// The epilogue of one box of a tile, for its rows of x before `end_octet`.
  __device__ Epilogue epilogue_of(std::uint32_t tile, unsigned part,
                                  std::uint32_t end_octet) const {
    const std::uint32_t weight_block = box(tile, part) * 2 + warpgroup();
    const std::uint32_t row = first_row(tile);
    return {a_,
            weight_block,
            row,
            min(count_, row + 8 * end_octet),
            shared().factors,
            epilogue_buffer()};
  }

  /// Multiplies the next stages of a tile. A warp that gave up waiting multiplies whatever lies in
  /// the stage, since wgmma needs all warps of a warpgroup. In order, the second warpgroup begins a
  /// tile when the first one has multiplied a stage.
  __device__ void multiply_stages(std::uint32_t stages, Sums& sums,
                                  [[maybe_unused]] bool begins_tile = false) {
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part) {
#pragma unroll
      for (unsigned i = 0; i < kSums; ++i) sums[part][i] = 0;
      if constexpr (Weights::kGroups > 1) sm90::fence_operands(sums[part]);
    }
    State last = state_;
    if constexpr (kInOrder)
      if (begins_tile && warpgroup() == 1) wait_to_begin();
    Weights weights;
    for (std::uint32_t k = 0; k < stages; ++k) {
      if (!gave_up_) gave_up_ = !ring().wait_full(state_);
      const unsigned char* from = stage(state_);
      const std::uint64_t x = sm90::smem_descriptor(from + kWeightBytes);
#pragma unroll
      for (unsigned group = 0; group < Weights::kGroups; ++group) {
        constexpr unsigned kEach = kStep / 16 / Weights::kGroups;
        weights.read(from, warpgroup(), group);
        sm90::wgmma_fence();
#pragma unroll
        for (unsigned i = group * kEach; i < (group + 1) * kEach; ++i)
#pragma unroll
          for (unsigned part = 0; part < kHeight; ++part)
            weights.multiply(sums[part], part, i, x + 2 * i);
        sm90::wgmma_commit();
        sm90::wgmma_wait<1>();
      }
      // With one group pending, the products of the previous stage are complete: release it. ptxas
      // may serialize wgmma where there is a branch between groups.
      if (k != 0 && !gave_up_) ring().release(last);
      if constexpr (kInOrder)
        if (begins_tile && warpgroup() == 0 && k == min(1u, stages - 1)) let_begin();
      last = state_;
      state_.advance();
    }
    sm90::wgmma_wait<0>();
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part) sm90::fence_operands(sums[part]);
    if (!gave_up_) ring().release(last);
  }
  /// Whether the warpgroups begin a tile one after the other. If a tile has no more stages than the
  /// ring, the first one could be a tile ahead and arrive twice.
  __device__ bool begins_apart() const { return stages_ > kStages; }
  __device__ static void let_begin() {
    asm volatile("bar.arrive 6, %0;" ::"n"(kConsumerThreads) : "memory");
  }
  __device__ static void wait_to_begin() {
    asm volatile("bar.sync 6, %0;" ::"n"(kConsumerThreads) : "memory");
  }
  /// Multiplies a tile's first classes and adds up their sums.
  __device__ void add_up_classes(const Segment& s, Sums& sums) {
    multiply_stages(stages_of(0), sums, begins_apart());
    for (std::uint32_t c = 1; c < s.end; ++c) {
      Sums more;
      multiply_stages(stages_of(c), more);
#pragma unroll
      for (unsigned part = 0; part < kHeight; ++part)
#pragma unroll
        for (unsigned i = 0; i < kSums; ++i)
          sums[part][i] = __fadd_rn(sums[part][i], more[part][i]);
    }
  }
  /// Multiplies other classes and leaves the sum of each.
  __device__ void leave_classes(const Segment& s) {
    const Split split = scheduler_.split(s.tile);
    for (std::uint32_t c = s.begin; c < s.end; ++c) {
      Sums sums;
      multiply_stages(stages_of(c), sums, c == s.begin && begins_apart());
      store_partials(scheduler_.pair() * Scheduler::kSlots + c, sums[0]);
    }
    count_partials(s, split);
  }

  // Split tiles. Each has a counter. It goes from 0 to the number of its pairs as they store their
  // partial sums, and on to twice that number, where it wraps to 0, as they have read them. A pair
  // that gives up waiting counts too, so the counter is 0 after the kernel whatever happened.

  __device__ void store_partials(std::uint32_t slot, const float (&sums)[kSums]) const {
    float4* const to = partials(slot);
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      __stcg(to + i * kConsumerThreads,
             float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
  }
  __device__ void count_partials(const Segment& s, const Split& split) {
    sync_consumers();
    if (threadIdx.x == kFirstConsumer) count_written(s.tile, split);
  }
  /// Waits for the other pairs, then reduces and stores this pair's slices. There are at most two,
  /// of its first and its last tile. Partial sums are copied to where the ring was; each thread
  /// adds up what it copied itself.
  __device__ void reduce_split_tiles() {
    unsigned waits = kFirstConsumer;
    each_split([&](const Segment& s) {
      if (threadIdx.x == waits) wait_for_partials(s.tile, scheduler_.split(s.tile));
      waits += 32;
    });
    sync_consumers();
    unsigned index = 0;
    each_split([&](const Segment& s) {
      const Slice slice = slice_of(s, index++);
      copy_partials(slice, slice.octet, 0);
    });
    index = 0;
    each_split([&](const Segment& s) { reduce_slice(slice_of(s, index++)); });
    sync_consumers();
    each_split([&](const Segment& s) {
      if (threadIdx.x == kFirstConsumer) count_read(s.tile, scheduler_.split(s.tile));
    });
  }
  static constexpr unsigned kBufferedVectors =
      kStages * kStageBytes / 2 / (kConsumerThreads * sizeof(float4));
  struct Slice {
    std::uint32_t tile;
    Split split;
    std::uint32_t octet;  // the slice's first
    std::uint32_t end_octet;
    float4* buffer;  // a thread's first of kBufferedVectors, kConsumerThreads apart
  };
  __device__ Slice slice_of(const Segment& s, unsigned index) const {
    const Split split = scheduler_.split(s.tile);
    const std::uint32_t mine = scheduler_.pair() - split.first;
    const std::uint32_t octet = mine * kOctets / split.count;
    return {s.tile, split, octet, (mine + 1) * kOctets / split.count,
            reinterpret_cast<float4*>(stage({})) + index * kBufferedVectors * kConsumerThreads +
                consumer_thread()};
  }
  /// Octets of a slice from `octet` on that one pass takes, and how many partial sums of them fit
  /// in the buffer.
  __device__ static std::uint32_t pass_of(const Slice& slice, std::uint32_t octet) {
    return min(kPass, slice.end_octet - octet);
  }
  __device__ static std::uint32_t parts_at_once(std::uint32_t octets) {
    return kBufferedVectors / max(octets, 1u);
  }
  /// Copies partial sums of the pass at `octet`, from `first` on, as many as fit.
  __device__ void copy_partials(const Slice& slice, std::uint32_t octet,
                                std::uint32_t first) const {
    const std::uint32_t octets = pass_of(slice, octet);
    float4* to = slice.buffer;
#pragma unroll 1
    for (std::uint32_t i = first; i < min(first + parts_at_once(octets), slice.split.parts); ++i) {
      const float4* from =
          partials(scheduler_.slot(slice.tile, slice.split, i)) + octet * kConsumerThreads;
#pragma unroll 1
      for (std::uint32_t j = 0; j < octets; ++j, from += kConsumerThreads, to += kConsumerThreads)
        __pipeline_memcpy_async(to, from, sizeof(float4));
    }
    __pipeline_commit();
  }
  /// REQUIRES: copy_partials(slice, slice.octet, 0).
  __device__ void reduce_slice(const Slice& slice) {
    Epilogue epilogue = epilogue_of(slice.tile, 0, slice.end_octet);
    epilogue.load_operands(slice.octet);
    if (p_.squares) sync<kFactorsReady>();
    for (std::uint32_t octet = slice.octet; octet < slice.end_octet; octet += kPass) {
      if (octet != slice.octet) copy_partials(slice, octet, 0);
      reduce_pass(slice, octet, epilogue);
    }
    if (p_.squares) arrive<kFactorsRead>();
  }
  __device__ void reduce_pass(const Slice& slice, std::uint32_t octet, Epilogue& epilogue) {
    const std::uint32_t octets = pass_of(slice, octet);
    float sums[4 * kPass] = {};
    for (std::uint32_t first = 0;;) {
      __pipeline_wait_prior(0);
      const std::uint32_t end = min(first + parts_at_once(octets), slice.split.parts);
      for (const float4* from = slice.buffer; first < end; ++first)
#pragma unroll
        for (unsigned j = 0; j < kPass; ++j)
          if (j < octets) {
            sums[4 * j] += from->x;
            sums[4 * j + 1] += from->y;
            sums[4 * j + 2] += from->z;
            sums[4 * j + 3] += from->w;
            from += kConsumerThreads;
          }
      if (first >= slice.split.parts) break;
      copy_partials(slice, octet, first);
    }
    epilogue.apply(sums, octet);
  }
  __device__ void count_written(std::uint32_t tile, const Split& split) {
    asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(counter(tile)),
                 "r"(2 * split.count - 1)
                 : "memory");
  }
  __device__ void count_read(std::uint32_t tile, const Split& split) {
    asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(counter(tile)),
                 "r"(2 * split.count - 1)
                 : "memory");
  }
  __device__ void wait_for_partials(std::uint32_t tile, const Split& split) {
    constexpr unsigned kPollsPerLook = 64;  // reading the clock is slow
    std::uint32_t left = 0;
    const auto all_stored = [&] {
      for (unsigned polls = 0; polls < kPollsPerLook; ++polls) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(left)
                     : "l"(counter(tile))
                     : "memory");
        if (left >= split.count) return true;
      }
      return false;
    };
    if (!all_stored() &&
        !ring().wait_otherwise(kWaitForPartials, split.count, a_.patience_nanoseconds, all_stored))
      shared().partials_seen[consumer_thread() / 32] = left;
  }

  // Named barriers of the consumer warps and the three that find factors.
  static constexpr unsigned kFactorsReady = 2;
  static constexpr unsigned kFactorsRead = 3;
  static constexpr unsigned kFactorThreads = kConsumerThreads + 96;
  template <unsigned kBarrier>
  __device__ static void sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kFactorThreads) : "memory");
  }
  template <unsigned kBarrier>
  __device__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kFactorThreads) : "memory");
  }
  __device__ static void sync_consumers() {
    asm volatile("bar.sync 1, %0;" ::"n"(kConsumerThreads) : "memory");
  }

  /// The thread among the consumers, and its warpgroup.
  __device__ static unsigned consumer_thread() { return threadIdx.x - kFirstConsumer; }
  __device__ static unsigned warpgroup() { return threadIdx.x / 128 - 1; }

  // Shared memory: mbarriers and factors, the stages, then one epilogue buffer for each warpgroup.
  struct Shared {
    BlockRing ring;
    std::uint32_t partials_seen[2];  // counters seen by the threads that gave up
    alignas(16) float factors[kRows + 8 * (kPass - 1)];  // a slice may reach past the tile
  };
  static_assert(sizeof(Shared) <= Sizes::kHeaderBytes &&
                2 * Epilogue::kFloats * sizeof(float) == Sizes::kEpilogueBytes);
  /// The 128-byte swizzle needs stages at multiples of 1024 bytes.
  __device__ static unsigned char* memory() {
    extern __shared__ __align__(1024) unsigned char tiled_memory[];
    return tiled_memory;
  }
  __device__ static Shared& shared() { return *reinterpret_cast<Shared*>(memory()); }
  __device__ static BlockRing& ring() { return shared().ring; }
  __device__ static unsigned char* stage(const State& at) {
    return memory() + Sizes::kHeaderBytes + at.stage * kStageBytes;
  }
  __device__ static float* epilogue_buffer() {
    return reinterpret_cast<float*>(memory() + Sizes::kHeaderBytes + kStages * kStageBytes) +
           warpgroup() * Epilogue::kFloats;
  }
  __device__ std::uint32_t* counter(std::uint32_t tile) const {
    return static_cast<std::uint32_t*>(a_.workspace) + 2 * tile + rank_;
  }
  __device__ float4* partials(std::uint32_t slot) const {
    auto* shares = static_cast<unsigned char*>(a_.workspace) + kCounterBytes;
    return reinterpret_cast<float4*>(shares) +
           std::uint64_t{2 * slot + rank_} * (kPairRows * kRows / 8) + consumer_thread();
  }

  const TiledLinearArgs& a_;
  const StreamedLinearArgs& p_;
  std::uint32_t count_;
  std::uint32_t x_tiles_;
  unsigned rank_;         // in the cluster
  std::uint32_t stages_;  // of a tile
  Scheduler scheduler_;
  State state_;
  bool gave_up_ = false;  // whether this warp gave up waiting for a stage
};

}  // namespace attacca::kernels::tiled
