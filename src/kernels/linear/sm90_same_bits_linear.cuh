// sm90_same_bits_linear.cuh: the CUDA body of sm90_same_bits_linear.hpp. A block has the same tiles
// as in streamed_linear.cuh and adds up in the same order: the same warps have the same columns,
// and the same 16 of them meet in a tensor-core instruction. But x also comes through shared
// memory, for 64 rows of x and up to eight tiles of weights at a time.
//
// A pair is a cluster of two blocks. Each block has TMA multicast half of x to both, so both go
// through the same columns at the same time.
#pragma once

#include "kernels/linear/sm90_pair_ring.cuh"
#include "kernels/linear/sm90_same_bits_linear.hpp"
#include "kernels/linear/sm90_tma.cuh"
#include "kernels/linear/streamed_multiply.cuh"
#include "kernels/linear/streamed_order.cuh"

namespace attacca::kernels::same_bits {

class Block {
 public:
  __device__ explicit Block(const SameBitsLinearArgs& args)
      : a_(args),
        p_(args.product),
        count_(min(*args.product.rows.count, args.product.rows.capacity)),
        tiles_(streamed::tile_range<kTileRows>(args.product)),
        chunks_((args.product.w.columns + streamed::kChunk - 1) / streamed::kChunk),
        rank_(blockIdx.x % 2),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32) {
    const std::uint32_t peer_tiles =
        streamed::tile_range<kTileRows>(args.product, blockIdx.x ^ 1).count;
    groups_ = (max(tiles_.count, peer_tiles) + kTiles - 1) / kTiles;
  }

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) ring().init();
    synchronize_pair();
    t.release_consumers();
    // Registers of the producer and norm warps go to those that do.
    if (warp_ >= kConsumerWarps) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (warp_ == kConsumerWarps)
        produce(t);
      else if (p_.squares && groups_ != 0)
        find_factors(t);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      t.wait_for_producers();
      consume();
    }
    synchronize_pair();  // a block may not exit while its peer still writes to its shared memory
    ring().report(t);
  }

 private:
  using BlockRing = PairRing<kStages, kConsumerWarps>;
  using State = BlockRing::State;
  static_assert(kConsumerWarps == streamed::kConsumerWarps &&
                kColumns == kConsumerWarps * streamed::kGroup);
  static constexpr unsigned kConsumerThreads = 32 * kConsumerWarps;

  /// Tiles of a group of kTiles, as far as this block has them.
  __device__ std::uint32_t tiles_of(std::uint32_t group) const {
    const std::uint32_t first = group * kTiles;
    return first < tiles_.count ? min(tiles_.count - first, kTiles) : 0;
  }
  /// Calls use(column) for each stage of a pass over all columns, until it returns false.
  template <class Use>
  __device__ void each_stage(const Use& use) const {
    std::uint32_t chunk = streamed::first_chunk(chunks_);
    for (std::uint32_t i = 0; i < chunks_; ++i) {
      const std::uint32_t end = min((chunk + 1) * streamed::kChunk, p_.w.columns);
      for (std::uint32_t column = chunk * streamed::kChunk; column < end; column += kColumns)
        if (!use(column)) return;
      if (++chunk == chunks_) chunk = 0;
    }
  }

  /// The producer warp. Weights do not depend on the kernels before, so they are requested early.
  __device__ void produce(WaitingThread& t) {
    prefetch_map(a_.w_map);
    prefetch_map(a_.x_map);
    State state;
    std::uint32_t early = 0;
    if (count_ != 0)
      each_stage([&](std::uint32_t column) {
        if (early == kStages || !begin_stage(state, 0, column)) return false;
        state.advance();
        ++early;
        return true;
      });
    t.wait_for_producers();
    state = {};
    std::uint32_t filled = 0;
    for (std::uint32_t row = 0; row < count_; row += kRows)
      for (std::uint32_t group = 0; group < groups_; ++group)
        each_stage([&](std::uint32_t column) {
          if (filled >= early && !begin_stage(state, group, column)) return false;
          if (lane_ == 0)
            copy_rows_to_pair(ring().full(state), stage(state) + rank_ * (kXBytes / 2), a_.x_map,
                              row + rank_ * (kRows / 2), column / 64);
          state.advance();
          ++filled;
          return true;
        });
  }
  /// Requests the weights of a stage, one lane for each tile. Returns false if the stage did not
  /// become free.
  __device__ bool begin_stage(const State& at, std::uint32_t group, std::uint32_t column) {
    const std::uint32_t tiles = tiles_of(group);
    if (!ring().wait_empty(at)) return false;
    if (lane_ == 0) ring().expect(at, kXBytes + tiles * kTileBytes);
    __syncwarp();
    // With no more rows of x, weights are read once.
    if (lane_ < tiles)
      copy_tile(ring().full(at), stage(at) + kXBytes + lane_ * kTileBytes, a_.w_map,
                tiles_.first + group * kTiles + lane_, column / 64,
                count_ <= kRows ? kEvictFirst : kEvictNormal);
    return true;
  }

  /// Accumulators of two tiles and eight rows of x: the first two of four belong to one tile, and
  /// each is a row of x.
  using Sums = float[kTiles / 2][kRows / 8][4];

  __device__ void consume() {
    State state;
    for (std::uint32_t row = 0; row < count_; row += kRows)
      for (std::uint32_t group = 0; group < groups_; ++group) {
        const std::uint32_t tiles = tiles_of(group);
        Sums sums = {};
        each_stage([&](std::uint32_t column) {
          if (!ring().wait_full(state)) return false;  // the sums are garbage then
          unsigned seen = 0;
          if (tiles != 0 && column + warp_ * streamed::kGroup < p_.w.columns)
            seen = multiply(stage(state), tiles, sums);
          ring().release(state, seen);
          state.advance();
          return true;
        });
        if (p_.squares && group == 0) sync<kFactorsReady>();
        reduce_group(row, group, tiles, sums);
        if (p_.squares && group + 1 == groups_) arrive<kFactorsRead>();
      }
  }

  // In shared memory a row of 64 columns is 128 bytes, whose 16-byte pieces are swizzled by the
  // row's index among eight. A lane reads one piece of one of eight rows. Two groups of four lanes
  // read rows four apart, whose pieces lie in different banks.

  /// The row of eight that the lanes of a row of the instruction hold.
  __device__ static unsigned row_of(unsigned slot) { return slot / 2 + slot % 2 * 4; }
  __device__ unsigned lane_at() const {
    const unsigned row = row_of(lane_ / 4);
    const unsigned piece = warp_ % 2 * 4 + lane_ % 4;
    return row * 128 + (piece ^ row) * 16;
  }

  /// Multiplies this warp's 32 columns of a stage. The result depends on all that was read, for
  /// PairRing::release.
  __device__ unsigned multiply(const unsigned char* from, std::uint32_t tiles, Sums& sums) const {
    constexpr unsigned kHalfOctets = kRows / 16;
    const unsigned char* const x_at = from + warp_ / 2 * (kHalfOctets * 1024) + lane_at();
    const unsigned char* const w_at = from + kXBytes + warp_ / 2 * 1024 + lane_at();
    unsigned seen = 0;
    uint4 x[kRows / 8];
#pragma unroll
    for (unsigned octet = 0; octet < kRows / 8; ++octet)
      x[octet] = streamed::load<uint4>(x_at + octet / kHalfOctets * (kXBytes / 2) +
                                       octet % kHalfOctets * 1024);
    // Two tiles at a time, with the next ones in flight. If the number of tiles is odd, the last
    // one's partner is whatever lies there, and its sums are not used. Weights are the
    // instruction's 16 rows (A): that operand needs moves between registers, and there are fewer
    // weights than x.
    const auto load = [&](unsigned tile) {
      return streamed::load<uint4>(w_at + tile * kTileBytes);
    };
    uint4 next[2] = {load(0), load(1)};
#pragma unroll
    for (unsigned pair = 0; pair < kTiles / 2; ++pair) {
      if (2 * pair >= tiles) break;
      const streamed::WeightFragments w(next[0], next[1]);
      seen |= next[0].w | next[1].w;
      if (pair + 1 < kTiles / 2)
#pragma unroll
        for (unsigned i = 0; i < 2; ++i) next[i] = load(2 * pair + 2 + i);
#pragma unroll
      for (unsigned octet = 0; octet < kRows / 8; ++octet)
        streamed::multiply(sums[pair][octet], w.first, x[octet].x, x[octet].y);
#pragma unroll
      for (unsigned octet = 0; octet < kRows / 8; ++octet)
        streamed::multiply(sums[pair][octet], w.second, x[octet].z, x[octet].w);
    }
    seen |= next[0].w | next[1].w;
#pragma unroll
    for (unsigned octet = 0; octet < kRows / 8; ++octet) seen |= x[octet].w;
    return seen;
  }

  /// Three other warps find the norm factors meanwhile.
  __device__ void find_factors(WaitingThread& t) {
    t.wait_for_producers();
    for (std::uint32_t first = 0; first < count_; first += kRows) {
      for (std::uint32_t row = warp_ - kConsumerWarps - 1; row < min(kRows, count_ - first);
           row += kNormWarps) {
        const float factor = streamed::norm_factor(p_, first + row);
        if (lane_ == 0) shared().factors[row] = factor;
      }
      arrive<kFactorsReady>();
      sync<kFactorsRead>();
    }
  }
  // Named barriers of those warps and the consumers.
  static constexpr unsigned kFactorsReady = 2;
  static constexpr unsigned kFactorsRead = 3;
  template <unsigned kBarrier>
  __device__ static void sync() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kConsumerThreads + 32 * kNormWarps)
                 : "memory");
  }
  template <unsigned kBarrier>
  __device__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kConsumerThreads + 32 * kNormWarps)
                 : "memory");
  }

  /// The results that a thread stores of two tiles and 32 rows of x: one output of two rows.
  struct Results {
    streamed::Output to[2];
    float residual[2];
    float norm;
    const float* partials;  // the warps' partial sums
  };

  /// Adds up the warps' sums and applies the epilogue. Partial sums alternate between two buffers
  /// in shared memory, since the last ones may still be read.
  __device__ void reduce_group(std::uint32_t first_row, std::uint32_t group, std::uint32_t tiles,
                               const Sums& sums) {
#pragma unroll
    for (unsigned turn = 0; turn < kTiles; ++turn) {
      const unsigned pair = turn / 2;
      const unsigned half = turn % 2;
      if (2 * pair >= tiles) break;
      if (first_row + half * 32 >= count_) continue;
      const Results results = results_of(first_row + half * 32, group * kTiles + 2 * pair);
      store_partials(sums[pair] + 4 * half);
      sync_consumers();
      reduce_and_store(results, first_row);
    }
  }
  /// The results of 32 rows of x and the block's tiles `tile` and `tile` + 1.
  __device__ Results results_of(std::uint32_t first_row, std::uint32_t tile) const {
    const unsigned column = threadIdx.x % 16;
    const std::uint32_t mine = tile + column / kTileRows;
    const std::uint32_t output = (tiles_.first + mine) * kTileRows + column % kTileRows;
    const bool adds = p_.epilogue == Epilogue::add && mine < tiles_.count;
    Results results{};
    results.partials = partials() + turn_ % 2 * kPartialFloats;
    if (adds) results.norm = p_.next_norm[output];
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint32_t row = first_row + i * 16 + threadIdx.x / 16;
      results.to[i] = {row, output, row < count_ && mine < tiles_.count};
      if (adds && row < count_)
        results.residual[i] = p_.residual.values[std::uint64_t{row} * p_.w.rows + output];
    }
    return results;
  }
  // A row of 16 outputs takes half of the banks. Its halves are swapped in every other pair of
  // rows, so that neither writes nor reads have bank conflicts.
  __device__ static unsigned partial_at(unsigned row, unsigned output) {
    return row * 16 + (output ^ row / 2 % 2 * 8);
  }
  __device__ void store_partials(const float (*sums)[4]) {
    float* const to =
        partials() + turn_++ % 2 * kPartialFloats + warp_ * (kPartialFloats / kConsumerWarps);
    const unsigned output = output_of_lane();
#pragma unroll
    for (unsigned octet = 0; octet < 4; ++octet)
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const unsigned row = octet * 8 + row_of(lane_ % 4 * 2 + k % 2);
        to[partial_at(row, k / 2 * kTileRows + output)] = sums[octet][k];
      }
  }
  __device__ void reduce_and_store(const Results& results, std::uint32_t first_row) const {
    float sums[2] = {};
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at = partial_at(i * 16 + threadIdx.x / 16, threadIdx.x % 16);
#pragma unroll
      for (unsigned warp = 0; warp < kConsumerWarps; ++warp)
        sums[i] += results.partials[warp * (kPartialFloats / kConsumerWarps) + at];
      if (p_.squares && results.to[i].is_real)
        sums[i] = __fmul_rn(sums[i], shared().factors[results.to[i].row - first_row]);
    }
#pragma unroll
    for (unsigned i = 0; i < 2; ++i)
      streamed::apply_epilogue(p_, results.to[i], sums[i], results.residual[i], results.norm);
  }
  /// The output of a tile that this lane accumulates. A gate and its partner are four rows apart in
  /// the tile, and their outputs alternate.
  __device__ unsigned output_of_lane() const {
    const unsigned slot = lane_ / 4;
    return p_.epilogue != Epilogue::gate ? row_of(slot) : a_.gate_is_second ? slot ^ 1 : slot;
  }

  __device__ static void sync_consumers() {
    asm volatile("bar.sync 1, %0;" ::"n"(kConsumerThreads) : "memory");
  }

  // Shared memory: mbarriers and factors, the stages, then the partial sums.
  struct Shared {
    BlockRing ring;
    float factors[kRows];
  };
  static_assert(sizeof(Shared) <= kHeaderBytes);
  /// The 128-byte swizzle needs stages at multiples of 1024 bytes.
  __device__ static unsigned char* memory() {
    extern __shared__ __align__(1024) unsigned char same_bits_memory[];
    return same_bits_memory;
  }
  __device__ static Shared& shared() { return *reinterpret_cast<Shared*>(memory()); }
  __device__ static BlockRing& ring() { return shared().ring; }
  __device__ static unsigned char* stage(const State& at) {
    return memory() + kHeaderBytes + at.stage * kStageBytes;
  }
  __device__ static float* partials() {
    return reinterpret_cast<float*>(memory() + kHeaderBytes + kStages * kStageBytes);
  }

  const SameBitsLinearArgs& a_;
  const StreamedLinearArgs& p_;
  std::uint32_t count_;
  streamed::TileRange tiles_;
  std::uint32_t chunks_;
  std::uint32_t groups_;  // of kTiles tiles; the larger number of both blocks
  unsigned rank_;         // in the cluster
  unsigned lane_;
  unsigned warp_;
  unsigned turn_ = 0;  // selects one of two buffers for partial sums
};

}  // namespace attacca::kernels::same_bits
