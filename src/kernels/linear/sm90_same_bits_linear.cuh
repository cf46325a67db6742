// sm90_same_bits_linear.cuh: the CUDA body of sm90_same_bits_linear.hpp. A block has the tiles that
// it has in streamed_linear.cuh, and adds up as there: the same warps have the same columns, in the
// same order, and the same 16 of them meet in an instruction. But x comes through shared memory
// too, for 64 rows of it and up to eight tiles of weights at a time.
//
// Two blocks, a pair, have TMA bring half of x each, for both. They go through the same
// columns at a time.
#pragma once

#include "kernels/linear/sm90_pair_ring.cuh"
#include "kernels/linear/sm90_same_bits_linear.hpp"
#include "kernels/linear/sm90_tma.cuh"
#include "kernels/linear/streamed_multiply.cuh"
#include "kernels/linear/streamed_share.cuh"

namespace attacca::kernels::same_bits {

class Block {
 public:
  __device__ explicit Block(const SameBitsLinearArgs& args)
      : a_(args),
        p_(args.product),
        count_(min(*args.product.rows.count, args.product.rows.capacity)),
        share_(streamed::share_of<kTileRows>(args.product)),
        chunks_((args.product.w.columns + streamed::kChunk - 1) / streamed::kChunk),
        rank_(blockIdx.x % 2),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32) {
    const std::uint32_t theirs = streamed::share_of<kTileRows>(args.product, blockIdx.x ^ 1).tiles;
    groups_ = (max(share_.tiles, theirs) + kTiles - 1) / kTiles;
  }

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) ring().open();
    synchronize_pair();
    t.release_consumers();
    // Registers of the warps that do not multiply go to those that do.
    if (warp_ >= kWarps) {
      asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
      if (warp_ == kWarps)
        fill(t);
      else if (p_.squares && groups_ != 0)
        find_factors(t);
    } else {
      asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
      t.wait_for_producers();
      multiply_all();
    }
    synchronize_pair();  // a block may not exit while its peer still writes to its shared memory
    ring().report(t);
  }

 private:
  using BlockRing = PairRing<kStages, kWarps>;
  using Place = BlockRing::Place;
  static_assert(kWarps == streamed::kWarps && kColumns == kWarps * streamed::kGroup);
  static constexpr unsigned kReaders = 32 * kWarps;

  /// Tiles of a group.
  __device__ std::uint32_t tiles_of(std::uint32_t group) const {
    const std::uint32_t first = group * kTiles;
    return first < share_.tiles ? min(share_.tiles - first, kTiles) : 0;
  }
  /// Calls use(column) for the stages that all columns come in, until it returns false.
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

  /// The filling warp. Weights need not wait for the kernels before.
  __device__ void fill(WaitingThread& t) {
    fetch_map(a_.w_map);
    fetch_map(a_.x_map);
    Place place;
    std::uint32_t early = 0;
    if (count_ != 0)
      each_stage([&](std::uint32_t column) {
        if (early == kStages || !begin_stage(place, 0, column)) return false;
        place.advance();
        ++early;
        return true;
      });
    t.wait_for_producers();
    place = {};
    std::uint32_t filled = 0;
    for (std::uint32_t row = 0; row < count_; row += kRows)
      for (std::uint32_t group = 0; group < groups_; ++group)
        each_stage([&](std::uint32_t column) {
          if (filled >= early && !begin_stage(place, group, column)) return false;
          if (lane_ == 0)
            copy_rows_to_pair(ring().full(place), stage(place) + rank_ * (kXBytes / 2), a_.x_map,
                              row + rank_ * (kRows / 2), column / 64);
          place.advance();
          ++filled;
          return true;
        });
  }
  /// Asks for the weights of a stage, a lane for each tile. False: the stage did not become free.
  __device__ bool begin_stage(const Place& at, std::uint32_t group, std::uint32_t column) {
    const std::uint32_t tiles = tiles_of(group);
    if (!ring().wait_empty(at)) return false;
    if (lane_ == 0) ring().expect(at, kXBytes + tiles * kTileBytes);
    __syncwarp();
    // With no more rows of x no one reads weights again.
    if (lane_ < tiles)
      copy_tile(ring().full(at), stage(at) + kXBytes + lane_ * kTileBytes, a_.w_map,
                share_.first + group * kTiles + lane_, column / 64,
                count_ <= kRows ? kEvictFirst : kEvictNormal);
    return true;
  }

  /// Of two tiles and eight rows of x: those of one tile in the first two of four, and in them two
  /// rows of x.
  using Sums = float[kTiles / 2][kRows / 8][4];

  __device__ void multiply_all() {
    Place place;
    for (std::uint32_t row = 0; row < count_; row += kRows)
      for (std::uint32_t group = 0; group < groups_; ++group) {
        const std::uint32_t tiles = tiles_of(group);
        Sums sums = {};
        each_stage([&](std::uint32_t column) {
          if (!ring().wait_full(place)) return false;  // the sums are garbage then
          unsigned seen = 0;
          if (tiles != 0 && column + warp_ * streamed::kGroup < p_.w.columns)
            seen = multiply(stage(place), tiles, sums);
          ring().release(place, seen);
          place.advance();
          return true;
        });
        if (p_.squares && group == 0) meet<kFactorsReady>();
        finish(row, group, tiles, sums);
        if (p_.squares && group + 1 == groups_) arrive<kFactorsRead>();
      }
  }

  // In shared memory a row of 64 columns is 128 bytes, whose 16-byte pieces lie swizzled: where the
  // row's place among eight says. A lane has one piece of one of eight rows. Of rows four apart the
  // pieces that two times four lanes want lie in other banks.

  /// The row of eight that the lanes of a place in an instruction have.
  __device__ static unsigned row_of(unsigned place) { return place / 2 + place % 2 * 4; }
  __device__ unsigned lane_at() const {
    const unsigned row = row_of(lane_ / 4);
    const unsigned piece = warp_ % 2 * 4 + lane_ % 4;
    return row * 128 + (piece ^ row) * 16;
  }

  /// This warp's 32 columns of a stage. Returns what depends on all that was read.
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
    // Two tiles at a time, the next ones on their way. An odd tile's partner is what lies there; no
    // one asks for its sums. Weights are the instruction's 16 rows: those want moving about in
    // registers, and there are fewer of them.
    const auto load = [&](unsigned tile) {
      return streamed::load<uint4>(w_at + tile * kTileBytes);
    };
    uint4 next[2] = {load(0), load(1)};
#pragma unroll
    for (unsigned pair = 0; pair < kTiles / 2; ++pair) {
      if (2 * pair >= tiles) break;
      const streamed::Pairs w(next[0], next[1]);
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

  /// Other warps find what the norm before this product multiplies each row of x by, meanwhile.
  __device__ void find_factors(WaitingThread& t) {
    t.wait_for_producers();
    for (std::uint32_t first = 0; first < count_; first += kRows) {
      for (std::uint32_t row = warp_ - kWarps - 1; row < min(kRows, count_ - first);
           row += kFinders) {
        const float factor = streamed::norm_factor(p_, first + row);
        if (lane_ == 0) shared().factors[row] = factor;
      }
      arrive<kFactorsReady>();
      meet<kFactorsRead>();
    }
  }
  // Barriers of those warps and the ones that multiply.
  static constexpr unsigned kFactorsReady = 2;
  static constexpr unsigned kFactorsRead = 3;
  template <unsigned kBarrier>
  __device__ static void meet() {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "n"(kReaders + 32 * kFinders) : "memory");
  }
  template <unsigned kBarrier>
  __device__ static void arrive() {
    asm volatile("bar.arrive %0, %1;" ::"n"(kBarrier), "n"(kReaders + 32 * kFinders) : "memory");
  }

  /// What a thread has of two tiles and 32 rows of x: one output of two rows.
  struct Results {
    streamed::Output to[2];
    float before[2];  // what they are added to
    float norm;
    const float* parts;  // where the warps' sums meet
  };

  /// Adds the warps' sums up and hands the results on. They meet in one of two places in shared
  /// memory, while the last ones may still be read in the other.
  __device__ void finish(std::uint32_t first_row, std::uint32_t group, std::uint32_t tiles,
                         const Sums& sums) {
#pragma unroll
    for (unsigned turn = 0; turn < kTiles; ++turn) {
      const unsigned pair = turn / 2;
      const unsigned half = turn % 2;
      if (2 * pair >= tiles) break;
      if (first_row + half * 32 >= count_) continue;
      const Results results = results_of(first_row + half * 32, group * kTiles + 2 * pair);
      put_down(sums[pair] + 4 * half);
      synchronize_readers();
      hand_on(results, first_row);
    }
  }
  /// Of 32 rows, and the block's tiles `tile` and the next one.
  __device__ Results results_of(std::uint32_t first_row, std::uint32_t tile) const {
    const unsigned column = threadIdx.x % 16;
    const std::uint32_t mine = tile + column / kTileRows;
    const std::uint32_t output = (share_.first + mine) * kTileRows + column % kTileRows;
    const bool adds = p_.epilogue == Epilogue::add && mine < share_.tiles;
    Results results{};
    results.parts = shared_parts() + turn_ % 2 * kPartFloats;
    if (adds) results.norm = p_.next_norm[output];
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const std::uint32_t row = first_row + i * 16 + threadIdx.x / 16;
      results.to[i] = {row, output, row < count_ && mine < share_.tiles};
      if (adds && row < count_)
        results.before[i] = p_.residual.values[std::uint64_t{row} * p_.w.rows + output];
    }
    return results;
  }
  // A row of 16 outputs takes half of the banks; where its halves lie, neither lanes that write nor
  // those that read meet in one.
  __device__ static unsigned part_at(unsigned row, unsigned output) {
    return row * 16 + (output ^ row / 2 % 2 * 8);
  }
  __device__ void put_down(const float (*sums)[4]) {
    float* const to = shared_parts() + turn_++ % 2 * kPartFloats + warp_ * (kPartFloats / kWarps);
    const unsigned output = output_of_lane();
#pragma unroll
    for (unsigned octet = 0; octet < 4; ++octet)
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) {
        const unsigned row = octet * 8 + row_of(lane_ % 4 * 2 + k % 2);
        to[part_at(row, k / 2 * kTileRows + output)] = sums[octet][k];
      }
  }
  __device__ void hand_on(const Results& results, std::uint32_t first_row) const {
    float sums[2] = {};
#pragma unroll
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at = part_at(i * 16 + threadIdx.x / 16, threadIdx.x % 16);
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp)
        sums[i] += results.parts[warp * (kPartFloats / kWarps) + at];
      if (p_.squares && results.to[i].is_real)
        sums[i] = __fmul_rn(sums[i], shared().factors[results.to[i].row - first_row]);
    }
#pragma unroll
    for (unsigned i = 0; i < 2; ++i)
      streamed::end(p_, results.to[i], sums[i], results.before[i], results.norm);
  }
  /// Of a tile. A gate and its partner are four rows apart, and their outputs take turns.
  __device__ unsigned output_of_lane() const {
    const unsigned place = lane_ / 4;
    return p_.epilogue != Epilogue::gate ? row_of(place) : a_.gate_is_second ? place ^ 1 : place;
  }

  __device__ static void synchronize_readers() {
    asm volatile("bar.sync 1, %0;" ::"n"(kReaders) : "memory");
  }

  // Shared memory: barriers and factors, stages, and where sums meet.
  struct Shared {
    BlockRing ring;
    float factors[kRows];
  };
  static_assert(sizeof(Shared) <= kFirstBytes);
  /// Swizzled rows begin at multiples of 1024 bytes.
  __device__ static unsigned char* memory() {
    extern __shared__ __align__(1024) unsigned char same_bits_memory[];
    return same_bits_memory;
  }
  __device__ static Shared& shared() { return *reinterpret_cast<Shared*>(memory()); }
  __device__ static BlockRing& ring() { return shared().ring; }
  __device__ static unsigned char* stage(const Place& at) {
    return memory() + kFirstBytes + at.stage * kStageBytes;
  }
  __device__ static float* shared_parts() {
    return reinterpret_cast<float*>(memory() + kFirstBytes + kStages * kStageBytes);
  }

  const SameBitsLinearArgs& a_;
  const StreamedLinearArgs& p_;
  std::uint32_t count_;
  streamed::Share share_;
  std::uint32_t chunks_;
  std::uint32_t groups_;  // of tiles, of both blocks
  unsigned rank_;         // in the pair
  unsigned lane_;
  unsigned warp_;
  unsigned turn_ = 0;  // of two places where sums meet
};

}  // namespace attacca::kernels::same_bits
