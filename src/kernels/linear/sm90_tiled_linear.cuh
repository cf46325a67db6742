// sm90_tiled_linear.cuh: the CUDA body of sm90_tiled_linear.hpp: y = W x for many rows of x through
// Hopper's warpgroup products. Two blocks, a pair, have tiles of 256 rows of weights by 64 or 128
// rows of x, or tall ones of 512 by 64: in each block one thread has TMA fill a ring of stages, 64
// columns each, with its half of the weights and, for both blocks, half of x; two warpgroups
// multiply straight from there.
//
// Where whole tiles would leave processors idle, pairs share columns too: each takes an equal run
// of stages. What it has of a shared tile it leaves in memory; in the end each of the pairs that
// share a tile adds up a slice of it, always in the same order. All blocks must be resident for
// that: there is at most one for each processor, and the library refuses the kernel where they may
// not fit.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "kernels/linear/sm90_pair_ring.cuh"
#include "kernels/linear/sm90_tiled_epilogue.cuh"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "kernels/linear/sm90_tma.cuh"
#include "kernels/linear/sm90_wgmma.cuh"

namespace attacca::kernels::tiled {

/// Which stages of which tiles a pair has.
class Walk {
 public:
  struct Segment {
    std::uint32_t tile;
    std::uint32_t begin;  // of the tile's stages
    std::uint32_t end;
  };

  /// `steps`: stages of a tile.
  __device__ Walk(std::uint32_t tiles, std::uint32_t steps, bool may_share)
      : tiles_(tiles), steps_(steps), pairs_(gridDim.x / 2), pair_(blockIdx.x / 2) {
    // Equal numbers of pairs for each tile, or of tiles for each pair, where that uses nearly all.
    const auto are_most = [&](std::uint32_t some, std::uint32_t all) {
      return some * 10 >= all * 9;
    };
    const std::uint32_t each = tiles == 0 ? 0 : min(pairs_ / tiles, steps);
    const std::uint32_t waves = (tiles + pairs_ - 1) / pairs_;
    if (may_share && each > 1 && are_most(tiles * each, pairs_)) pairs_ = tiles * each;
    shares_ = may_share && !are_most(tiles, waves * pairs_);
    start_ = shares_ ? first_unit(pair_) : pair_;
    end_ = pair_ >= pairs_ ? 0 : shares_ ? first_unit(pair_ + 1) : tiles_;
    rewind();
  }
  __device__ void rewind() { at_ = start_; }
  __device__ bool has_more() const { return at_ < end_; }
  /// REQUIRES: has_more().
  __device__ Segment next() {
    if (!shares_) {
      const std::uint32_t tile = at_;
      at_ += pairs_;
      return {tile, 0, steps_};
    }
    const std::uint32_t tile = at_ / steps_;
    const std::uint32_t begin = at_ - tile * steps_;
    const std::uint32_t end = min(steps_, begin + (end_ - at_));
    at_ += end - begin;
    return {tile, begin, end};
  }
  __device__ bool is_whole(const Segment& s) const { return s.end - s.begin == steps_; }

  /// The pairs that share a tile are neighbours. Each has room for two results: of the tile it
  /// begins with, and of the one it ends with; only the first of a tile's pairs may end with it.
  struct Sharing {
    std::uint32_t first;
    std::uint32_t count;
    std::uint32_t first_place;
    __device__ std::uint32_t place(std::uint32_t index) const {
      return index == 0 ? first_place : 2 * (first + index);
    }
  };
  __device__ Sharing sharing(std::uint32_t tile) const {
    const std::uint32_t first = pair_of(tile * steps_);
    const bool is_end = first_unit(first) < tile * steps_;
    return {first, pair_of((tile + 1) * steps_ - 1) + 1 - first, 2 * first + is_end};
  }
  __device__ std::uint32_t pair() const { return pair_; }

 private:
  __device__ std::uint32_t first_unit(std::uint32_t pair) const {
    return pair * (tiles_ * steps_) / pairs_;
  }
  __device__ std::uint32_t pair_of(std::uint32_t unit) const {
    return ((unit + 1) * pairs_ - 1) / (tiles_ * steps_);
  }

  std::uint32_t tiles_;
  std::uint32_t steps_;
  std::uint32_t pairs_;
  std::uint32_t pair_;
  bool shares_;
  std::uint32_t start_;
  std::uint32_t end_;
  std::uint32_t at_;
};

/// For `kRows` rows of x at a time, and tiles of 1 or 2 times kPairRows rows of weights. Those of 2
/// are not shared.
template <unsigned kRows, unsigned kHeight>
class Block {
 public:
  using Sizes = tiled::Sizes<kRows, kHeight>;
  static constexpr bool kMayShare = kHeight == 1;
  static constexpr unsigned kStageBytes = Sizes::kStageBytes;
  static constexpr unsigned kStages = Sizes::kStages;
  static constexpr unsigned kWeightBytes = Sizes::kWeightBytes;
  static constexpr unsigned kXBytes = Sizes::kXBytes;
  static constexpr unsigned kFirstReader = 128;
  static constexpr unsigned kReaders = 256;
  static constexpr unsigned kOctets = kRows / 8;  // of rows of x
  static constexpr unsigned kSums = kRows / 2;    // of a thread

  __device__ explicit Block(const TiledLinearArgs& args)
      : a_(args),
        p_(args.product),
        count_(min(*args.product.rows.count, args.product.rows.capacity)),
        x_tiles_((count_ + kRows - 1) / kRows),
        rank_(blockIdx.x % 2),
        walk_(x_tiles_ * ((args.weight_tiles() + kHeight - 1) / kHeight),
              (args.product.w.columns + kStep - 1) / kStep, kMayShare) {}

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) {
      ring().open();
      shared().shares_seen[0] = shared().shares_seen[1] = 0;
    }
    synchronize_pair();
    if (threadIdx.x != 0) t.release_consumers();  // the filling thread will, when it is done
    if (threadIdx.x < kFirstReader) {
      if (threadIdx.x == 0)
        fill(t);
      else if (threadIdx.x >= 32 && p_.squares)
        find_factors(t);
    } else {
      t.wait_for_producers();
      while (walk_.has_more()) compute(walk_.next());
      if constexpr (kMayShare) end_all_shared();
    }
    synchronize_pair();  // a block may not exit while its peer still writes to its shared memory
    // Threads that do not wait for shares have nothing to report of them: either will do.
    ring().report(t, shared().shares_seen[min(reader() / 32, 1u)], a_.patience_nanoseconds);
  }

 private:
  using BlockRing = PairRing<kStages, 8>;
  using Place = typename BlockRing::Place;
  using Segment = Walk::Segment;
  static constexpr unsigned kHalf = kOctets / 2;  // of them end at a time

  __device__ std::uint32_t first_row(std::uint32_t tile) const { return tile % x_tiles_ * kRows; }
  /// This block's rows of weights of a tile come in boxes: the number of one.
  __device__ std::uint32_t box(std::uint32_t tile, unsigned part) const {
    return (tile / x_tiles_ * 2 + rank_) * kHeight + part;
  }
  /// Once more over the walk, for the tiles that are not this block's alone.
  template <class Use>
  __device__ void each_shared(const Use& use) {
    walk_.rewind();
    while (walk_.has_more()) {
      const Segment s = walk_.next();
      if (!walk_.is_whole(s)) use(s);
    }
  }

  /// The filling thread. Weights need not wait for the kernels before.
  __device__ void fill(WaitingThread& t) {
    fetch_map(a_.w_map);
    fetch_map(a_.x_map);
    Place place;
    unsigned early = 0;
    while (walk_.has_more() && early < kStages) {
      const Segment s = walk_.next();
      for (std::uint32_t k = s.begin; k < s.end && early < kStages; ++k, ++early) {
        if (!begin_stage(place, s.tile, k)) return;
        place.advance();
      }
    }
    t.wait_for_producers();
    place = {};
    unsigned filled = 0;
    for (walk_.rewind(); walk_.has_more();) {
      const Segment s = walk_.next();
      for (std::uint32_t k = s.begin; k < s.end; ++k, ++filled) {
        if (filled >= kStages && !begin_stage(place, s.tile, k)) return;
        copy_to_pair(ring().full(place), stage(place) + kWeightBytes + rank_ * (kXBytes / 2),
                     a_.x_map, k * kStep, first_row(s.tile) + rank_ * (kRows / 2));
        place.advance();
      }
    }
    t.release_consumers();
  }
  /// False: the stage did not become free.
  __device__ bool begin_stage(const Place& at, std::uint32_t tile, std::uint32_t k) {
    if (!ring().wait_empty(at)) return false;
    ring().expect(at, kStageBytes);
    // With one tile of x no one reads weights again.
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part)
      copy_weights(ring().full(at), stage(at) + part * Sizes::kBoxBytes, a_.w_map, k * kStep,
                   box(tile, part) * a_.block_octets(), x_tiles_ == 1 ? kEvictFirst : kEvictNormal);
    return true;
  }

  // Three warps find what the norm before this product multiplies each row of x by, for each tile
  // in the order in which tiles end.

  __device__ void find_factors(WaitingThread& t) {
    t.wait_for_producers();
    std::uint32_t known = ~0u;
    const auto find = [&](const Segment& s) {
      if (first_row(s.tile) != known) find_factors_from(first_row(s.tile));
      known = first_row(s.tile);
      arrive<kFactorsReady>();
      meet<kFactorsRead>();
    };
    while (walk_.has_more()) {
      const Segment s = walk_.next();
      if (walk_.is_whole(s)) find(s);
    }
    each_shared(find);
  }
  /// Four lanes for each row.
  __device__ void find_factors_from(std::uint32_t base) {
    const std::uint32_t quads = p_.w.columns / Residual::kPart / 4;
    const unsigned thread = threadIdx.x - 32;
    for (std::uint32_t first = 0; first < kRows && base + first < count_; first += 24) {
      const std::uint32_t row = first + thread / 4;
      float sum = 0;
      if (row < kRows && base + row < count_) {
        const auto* squares =
            reinterpret_cast<const float4*>(p_.squares + std::uint64_t{base + row} * quads * 4);
#pragma unroll 4
        for (std::uint32_t i = thread % 4; i < quads; i += 4) {
          const float4 four = squares[i];
          sum += (four.x + four.y) + (four.z + four.w);
        }
      }
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (thread % 4 == 0 && row < kRows)
        shared().factors[row] = rsqrtf(sum / static_cast<float>(p_.w.columns) + p_.epsilon);
    }
  }

  using Sums = float[kHeight][kSums];

  __device__ void compute(const Segment& s) {
    const bool is_whole = walk_.is_whole(s);
    Sums sums;
    TileEpilogue<kHalf> epilogue = epilogue_of(s.tile, 0, kOctets);
    if (is_whole) epilogue.begin(0);
    multiply_all(s, sums);
    if constexpr (kMayShare)
      if (!is_whole) return leave_share(s, sums[0]);
    if (p_.squares) meet<kFactorsReady>();
    end_whole(epilogue, sums[0]);
#pragma unroll
    for (unsigned part = 1; part < kHeight; ++part) {
      TileEpilogue<kHalf> next = epilogue_of(s.tile, part, kOctets);
      next.begin(0);
      end_whole(next, sums[part]);
    }
    if (p_.squares) arrive<kFactorsRead>();
  }
  __device__ static void end_whole(TileEpilogue<kHalf>& epilogue, const float (&sums)[kSums]) {
    epilogue.template end<true>(sums, 0);
    epilogue.template end<false>(sums + kSums / 2, kHalf);
  }
  /// Of a box of a tile: its rows of x before `end_octet`.
  __device__ TileEpilogue<kHalf> epilogue_of(std::uint32_t tile, unsigned part,
                                             std::uint32_t end_octet) const {
    const std::uint32_t sixty_four = box(tile, part) * 2 + group();
    const std::uint32_t row = first_row(tile);
    return {a_, sixty_four, row, min(count_, row + 8 * end_octet), shared().factors, turning()};
  }

  /// This block's stages of a tile. A warp that has given up waiting multiplies what lies there: a
  /// product takes all warps of a warpgroup.
  __device__ void multiply_all(const Segment& s, Sums& sums) {
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part)
#pragma unroll
      for (unsigned i = 0; i < kSums; ++i) sums[part][i] = 0;
    Place last = place_;
    for (std::uint32_t k = s.begin; k < s.end; ++k) {
      if (!has_given_up_) has_given_up_ = !ring().wait_full(place_);
      const unsigned char* from = stage(place_);
      const std::uint64_t w = describe(from + group() * 64 * kStep * 2);
      const std::uint64_t x = describe(from + kWeightBytes);
      begin_products();
#pragma unroll
      for (unsigned i = 0; i < kStep / 16; ++i)
#pragma unroll
        for (unsigned part = 0; part < kHeight; ++part)
          multiply(sums[part], w + part * (Sizes::kBoxBytes / 16) + 2 * i, x + 2 * i);
      end_products();
      // The products of the stage before have ended when only this one's are under way.
      await_products<1>();
      if (k != s.begin && !has_given_up_) ring().release(last);
      last = place_;
      place_.advance();
    }
    await_products<0>();
#pragma unroll
    for (unsigned part = 0; part < kHeight; ++part) hold(sums[part]);
    if (!has_given_up_) ring().release(last);
  }

  // Shares of a tile. A counter goes from 0 to the number of its pairs as they leave theirs, and on
  // to twice that, which is 0 again, as they have read what they need. A pair that gives up waiting
  // counts all the same: when the kernel has ended, the counter is 0 again whatever happened.

  __device__ void leave_share(const Segment& s, const float (&sums)[kSums]) {
    const Walk::Sharing sharing = walk_.sharing(s.tile);
    float4* const to = share(sharing.place(walk_.pair() - sharing.first));
#pragma unroll
    for (unsigned i = 0; i < kOctets; ++i)
      __stcg(to + i * kReaders,
             float4{sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]});
    synchronize_readers();
    if (threadIdx.x == kFirstReader) count_written(s.tile, sharing);
  }
  /// Waits for the others and ends this block's slices of tiles: two at most, of the first tile
  /// that it had and of the last. Shares come to where the ring was; each thread adds up what it
  /// copied.
  __device__ void end_all_shared() {
    unsigned waits = kFirstReader;
    each_shared([&](const Segment& s) {
      if (threadIdx.x == waits) wait_for_shares(s.tile, walk_.sharing(s.tile));
      waits += 32;
    });
    synchronize_readers();
    unsigned index = 0;
    each_shared([&](const Segment& s) { copy_shares(slice_of(s, index++), 0); });
    index = 0;
    each_shared([&](const Segment& s) { end_shared(slice_of(s, index++)); });
    synchronize_readers();
    each_shared([&](const Segment& s) {
      if (threadIdx.x == kFirstReader) count_read(s.tile, walk_.sharing(s.tile));
    });
  }
  static constexpr unsigned kRoom = kStages * kStageBytes / 2 / (kReaders * sizeof(float4));
  struct Slice {
    std::uint32_t tile;
    Walk::Sharing sharing;
    std::uint32_t octet;  // the first
    std::uint32_t octets;
    std::uint32_t at_once;  // shares that there is room for
    float4* room;           // a thread's first of kRoom, which are kReaders apart
  };
  __device__ Slice slice_of(const Segment& s, unsigned index) const {
    const Walk::Sharing sharing = walk_.sharing(s.tile);
    const std::uint32_t mine = walk_.pair() - sharing.first;
    const std::uint32_t octet = mine * kOctets / sharing.count;
    const std::uint32_t octets = (mine + 1) * kOctets / sharing.count - octet;
    return {s.tile,
            sharing,
            octet,
            octets,
            kRoom / max(octets, 1u),
            reinterpret_cast<float4*>(stage({})) + index * kRoom * kReaders + reader()};
  }
  __device__ void copy_shares(const Slice& slice, std::uint32_t first) const {
    float4* to = slice.room;
#pragma unroll 1
    for (std::uint32_t i = first; i < min(first + slice.at_once, slice.sharing.count); ++i) {
      const float4* from = share(slice.sharing.place(i)) + slice.octet * kReaders;
#pragma unroll 1
      for (std::uint32_t j = 0; j < slice.octets; ++j, from += kReaders, to += kReaders)
        __pipeline_memcpy_async(to, from, sizeof(float4));
    }
    __pipeline_commit();
  }
  /// REQUIRES: copy_shares(slice, 0).
  __device__ void end_shared(const Slice& slice) {
    TileEpilogue<kHalf> epilogue = epilogue_of(slice.tile, 0, slice.octet + slice.octets);
    epilogue.begin(slice.octet);
    float sums[kSums / 2] = {};  // two at least share a tile
    for (std::uint32_t first = 0;;) {
      __pipeline_wait_prior(0);
      const std::uint32_t end = min(first + slice.at_once, slice.sharing.count);
      for (const float4* from = slice.room; first < end; ++first)
#pragma unroll
        for (unsigned j = 0; j < kHalf; ++j)
          if (j < slice.octets) {
            sums[4 * j] += from->x;
            sums[4 * j + 1] += from->y;
            sums[4 * j + 2] += from->z;
            sums[4 * j + 3] += from->w;
            from += kReaders;
          }
      if (first >= slice.sharing.count) break;
      copy_shares(slice, first);
    }
    if (p_.squares) meet<kFactorsReady>();
    epilogue.template end<false>(sums, slice.octet);
    if (p_.squares) arrive<kFactorsRead>();
  }
  __device__ void count_written(std::uint32_t tile, const Walk::Sharing& sharing) {
    asm volatile("red.release.gpu.global.inc.u32 [%0], %1;" ::"l"(counter(tile)),
                 "r"(2 * sharing.count - 1)
                 : "memory");
  }
  __device__ void count_read(std::uint32_t tile, const Walk::Sharing& sharing) {
    asm volatile("red.relaxed.gpu.global.inc.u32 [%0], %1;" ::"l"(counter(tile)),
                 "r"(2 * sharing.count - 1)
                 : "memory");
  }
  __device__ void wait_for_shares(std::uint32_t tile, const Walk::Sharing& sharing) {
    constexpr unsigned kPollsPerLook = 64;  // at the clock, which takes its time
    std::uint32_t left = 0;
    const auto all_left = [&] {
      for (unsigned polls = 0; polls < kPollsPerLook; ++polls) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                     : "=r"(left)
                     : "l"(counter(tile))
                     : "memory");
        if (left >= sharing.count) return true;
      }
      return false;
    };
    if (!all_left() &&
        !ring().wait_otherwise(kWaitForShares, sharing.count, a_.patience_nanoseconds, all_left))
      shared().shares_seen[reader() / 32] = left;
  }

  // Barriers of some of the block's warps.
  static constexpr unsigned kFactorsReady = 2;
  static constexpr unsigned kFactorsRead = 3;
  static constexpr unsigned kFactorThreads = kReaders + 96;
  template <unsigned kBarrier>
  __device__ static void meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kFactorThreads) : "memory");
  }
  template <unsigned kBarrier>
  __device__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kFactorThreads) : "memory");
  }
  __device__ static void synchronize_readers() {
    asm volatile("bar.sync 1, %0;" ::"n"(kReaders) : "memory");
  }

  /// Of those that multiply: a thread, and of the two warpgroups one.
  __device__ static unsigned reader() { return threadIdx.x - kFirstReader; }
  __device__ static unsigned group() { return threadIdx.x / 128 - 1; }

  // Shared memory: barriers and factors, stages, then for each group where its sums turn round.
  struct Shared {
    BlockRing ring;
    std::uint32_t shares_seen[2];  // by the threads that gave up waiting for them
    alignas(
        16) float factors[kRows + 8 * (kHalf - 1)];  // a slice's last octets may be past the tile
  };
  static_assert(sizeof(Shared) <= Sizes::kFirstBytes &&
                2 * TileEpilogue<kHalf>::kFloats * sizeof(float) == Sizes::kEndBytes);
  /// Swizzled rows begin at multiples of 1024 bytes.
  __device__ static unsigned char* memory() {
    extern __shared__ __align__(1024) unsigned char tiled_memory[];
    return tiled_memory;
  }
  __device__ static Shared& shared() { return *reinterpret_cast<Shared*>(memory()); }
  __device__ static BlockRing& ring() { return shared().ring; }
  __device__ static unsigned char* stage(const Place& at) {
    return memory() + Sizes::kFirstBytes + at.stage * kStageBytes;
  }
  __device__ static float* turning() {
    return reinterpret_cast<float*>(memory() + Sizes::kFirstBytes + kStages * kStageBytes) +
           group() * TileEpilogue<kHalf>::kFloats;
  }
  __device__ std::uint32_t* counter(std::uint32_t tile) const {
    return static_cast<std::uint32_t*>(a_.workspace) + 2 * tile + rank_;
  }
  __device__ float4* share(std::uint32_t place) const {
    auto* shares = static_cast<unsigned char*>(a_.workspace) + kCounterBytes;
    return reinterpret_cast<float4*>(shares) +
           std::uint64_t{2 * place + rank_} * (kPairRows * kRows / 8) + reader();
  }

  const TiledLinearArgs& a_;
  const StreamedLinearArgs& p_;
  std::uint32_t count_;
  std::uint32_t x_tiles_;
  unsigned rank_;  // in the pair
  Walk walk_;
  Place place_;
  bool has_given_up_ = false;  // this warp, waiting for a stage
};

}  // namespace attacca::kernels::tiled
