// streamed_linear.cuh: the CUDA body of streamed_linear.hpp for up to 16 rows of x. A block has a
// run of tiles, 8 or 16 rows of weights each. Two warps have TMA stream them into a ring of stages
// in shared memory; eight warps share the columns among them and add up after some tiles. Which
// columns meet in one instruction of the tensor cores is free as long as weights and x agree, so a
// lane's 16 bytes are what it reads of both. Weights of other types than bf16 become it on the way
// from shared memory to the tensor cores: see streamed_weights.cuh.
//
// The tensor cores multiply 16 rows by 8. With bf16 weights the 16 are rows of x. With others they
// are weights, made where the instruction wants them; and a lane has the products of those rows
// whose scales it finds beside its quants. x and what rounding it left then take turns.
//
// The first stages are filled before the kernel waits for its producers, and the next kernel may
// start as soon as there is room: memory does not idle while one kernel ends and the next begins.
// The ring is so small that the stages of both fit.
#pragma once

#include <cuda_bf16.h>

#include "kernels/linear/ring.cuh"
#include "kernels/linear/streamed_linear.hpp"
#include "kernels/linear/streamed_multiply.cuh"
#include "kernels/linear/streamed_share.cuh"

namespace attacca::kernels::streamed {

constexpr unsigned kFillers = 2;  // that have weights copied
constexpr unsigned kReaders = kWarps * 32;
constexpr unsigned kSharedBytes = 6 * 8 * (2 * kChunk + 128);

/// The warps that multiply, without those that copy.
__device__ inline void synchronize_readers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kReaders) : "memory");
}

/// Has L2 fetch something that will be read soon.
__device__ inline void prefetch(const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)),
               "r"(bytes)
               : "memory");
}

/// Of columns of a row.
template <class Weights>
__device__ constexpr unsigned bytes_of(unsigned columns) {
  return static_cast<unsigned>(row_bytes(Weights::kType, columns));
}

/// For up to 8 * kRows8 rows of x at a time.
template <class Weights, unsigned kRows8>
class Block {
 public:
  static constexpr bool kIsQuantized = Weights::kIsQuantized;
  static_assert(!kIsQuantized || kRows8 == 1);
  static constexpr unsigned kRows = 8 * kRows8;
  static constexpr unsigned kPlanes = kIsQuantized ? 2 : kRows8;  // of 8 rows: x, or x and its rest
  static constexpr unsigned kTileRows = Weights::kTileRows;
  static constexpr bool kWeightsAre16 = kTileRows == 16;
  static constexpr unsigned kSums = kWeightsAre16 ? kRows8 : 1;  // for each tile, of an instruction
  static constexpr unsigned kTiles = 4;                          // for which x is read once
  /// Of small weights a chunk is soon used up: x of the next one is on its way from its start on,
  /// where there are registers for both.
  static constexpr bool kLoadsAhead = kWeightsAre16 && kPlanes == 1;
  // Of the columns whose x warps have in registers, the groups of one.
  static constexpr unsigned kPieces = kChunk / kGroup / kWarps;
  static constexpr unsigned kGroupBytes = bytes_of<Weights>(kGroup);
  static_assert(bytes_of<Weights>(kChunk) % 16 == 0,
                "a row is as far from 16 bytes in every chunk");
  static constexpr unsigned kRowBytes = bytes_of<Weights>(kChunk) + Weights::kPadding;
  static constexpr unsigned kStageBytes = kTileRows * kRowBytes;
  static constexpr unsigned kStages = kSharedBytes / kStageBytes;
  // Tiles and outputs whose sums the warps add up at a time.
  static constexpr unsigned kOutputs = 32 / kRows8;
  static constexpr unsigned kTogether = kOutputs / kTileRows;

  __device__ explicit Block(const StreamedLinearArgs& args)
      : a_(args),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        share_(share_of<kTileRows>(args)) {
    groups_ = args.w.columns / kGroup;
    chunks_ = (args.w.columns + kChunk - 1) / kChunk;
    rotate_ = first_chunk(chunks_);
    for (unsigned i = 0; i < kTileRows / 8; ++i) at_[i] = row_at(i * 8 + lane_ / 4);
  }

  __device__ void run(WaitingThread& t) {
    if (threadIdx.x == 0) ring().open();
    __syncthreads();
    if (warp_ >= kWarps)
      fill();
    else
      multiply_all(t);
    ring().report(t);
  }

 private:
  /// The warps that multiply.
  __device__ void multiply_all(WaitingThread& t) {
    t.release_consumers();
    const std::uint32_t count = count_of_rows();
    find_rows(0, count);
    t.wait_for_producers();
    if (count == 0) return drain();
    for (std::uint32_t base = 0; base < count; base += kRows) {
      if (base != 0) find_rows(base, count);
      pass(base, min(count - base, kRows));
    }
  }

  __device__ std::uint32_t chunk_at(std::uint32_t index) const {
    const std::uint32_t at = index + rotate_;
    return at < chunks_ ? at : at - chunks_;
  }
  __device__ std::uint32_t tile_at(std::uint32_t index) const { return share_.first + index; }
  __device__ bool is_gate() const { return a_.epilogue == Epilogue::gate; }
  /// The plan of a step stands before its first kernel starts: it need not be waited for.
  __device__ std::uint32_t count_of_rows() const { return min(*a_.rows.count, a_.rows.capacity); }

  /// The filling warps: all tiles, once for every kRows rows of x.
  __device__ void fill() {
    const std::uint32_t count = count_of_rows();
    unsigned filled = 0;
    for (std::uint32_t base = 0; base < count || base == 0; base += kRows)
      for (std::uint32_t tile = 0; tile < share_.tiles; tile += kTiles)
        for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk)
          for (std::uint32_t one = tile; one < min(tile + kTiles, share_.tiles); ++one, ++filled) {
            if (count == 0 && filled == kStages) return;
            if (!fill_stage(tile_at(one), chunk_at(chunk) * kChunk)) return;
          }
    prefetch_next();
  }
  /// This warp's rows of it. Of two matrices the rows take turns, so that partners meet in a lane.
  /// False: no stage became free.
  __device__ bool fill_stage(std::uint32_t tile, std::uint32_t column) {
    constexpr unsigned kRowsEach = kTileRows / kFillers;
    const unsigned place = (warp_ - kWarps) * kRowsEach + lane_;
    const std::uint64_t row =
        is_gate() ? tile * (kTileRows / 2) + place / 2 : tile * kTileRows + place;
    const void* matrix = is_gate() && place % 2 != 0 ? a_.up.data : a_.w.data;
    std::uint64_t from = row_bytes(Weights::kType, row * a_.w.columns + column);
    unsigned bytes = bytes_of<Weights>(min(a_.w.columns - column, kChunk));
    unsigned all = kRowsEach * bytes;
    if constexpr (kIsQuantized) {  // from 16 bytes to 16 bytes; 8 rows are a number of them
      bytes = (static_cast<unsigned>(from % 16) + bytes + 15) / 16 * 16;
      from = from / 16 * 16;
      all = __reduce_add_sync(~0u, lane_ < kRowsEach ? bytes : 0);
    }
    if (!ring().begin_fill(place_, all)) return false;
    if (lane_ < kRowsEach)
      ring().copy(place_, stage() + place * kRowBytes,
                  static_cast<const unsigned char*>(matrix) + from, bytes);
    place_.advance();
    return true;
  }
  /// Where a row of a tile begins in a stage. The tiles before it are a multiple of 16 bytes.
  __device__ unsigned row_at(unsigned place) const {
    if constexpr (!kIsQuantized) return place * kRowBytes;
    const unsigned row = is_gate() ? place / 2 : place;
    return place * kRowBytes + row * bytes_of<Weights>(a_.w.columns) % 16;
  }
  /// Where a lane finds its bytes of a group.
  __device__ unsigned lane_at() const { return Weights::kHead + lane_ % 4 * Weights::kLaneBytes; }
  /// Memory works on while this kernel ends and the next one begins.
  __device__ void prefetch_next() const {
    if (lane_ >= StreamedLinearArgs::kMaxNext / kFillers) return;
    const Upcoming& next =
        a_.next[(warp_ - kWarps) * (StreamedLinearArgs::kMaxNext / kFillers) + lane_];
    if (next.most == 0) return;
    // A block's share of it begins where the next kernel's block begins.
    const std::uint64_t share = next.bytes / gridDim.x / 16 * 16;
    const auto* from = static_cast<const unsigned char*>(next.data) + blockIdx.x * share;
    prefetch(from, static_cast<unsigned>(min(share, static_cast<std::uint64_t>(next.most))));
  }
  /// What is on its way must come before the block may end.
  __device__ void drain() {
    for (std::uint32_t i = 0; i < min(share_.tiles * chunks_, kStages); ++i) {
      if (!ring().wait_full(place_)) return;
      place_.advance();
    }
  }

  __device__ std::uint64_t index_of_x(std::uint32_t row) const {
    return a_.gather ? static_cast<std::uint64_t>(a_.gather[row]) : row;
  }
  /// Lanes past the last row read it too: a load that depends on nothing is not waited for.
  __device__ void find_rows(std::uint32_t base, std::uint32_t count) {
#pragma unroll
    for (unsigned n = 0; n < kRows8; ++n) {
      const std::uint32_t row = min(base + n * 8 + lane_ / 4, max(count, 1u) - 1);
      const std::uint64_t at = index_of_x(row) * a_.w.columns;
      if constexpr (kIsQuantized) {
        rows_[0] = reinterpret_cast<const unsigned char*>(a_.x + at) + lane_ % 4 * 8;
        rows_[1] = reinterpret_cast<const unsigned char*>(a_.x_rest + at) + lane_ % 4 * 8;
      } else {
        rows_[n] = reinterpret_cast<const unsigned char*>(a_.x + at) + lane_ % 4 * 16;
      }
    }
  }

  /// The other warps: all tiles of the block for up to kRows rows of x.
  __device__ void pass(std::uint32_t base, std::uint32_t count) {
    load_x(chunk_at(0) * (kChunk / kGroup));
    for (std::uint32_t tile = 0; tile < share_.tiles; tile += kTiles) {
      Sums sums = {};
      load_around(tile, base, count);
      for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) {
        const std::uint32_t group = chunk_at(chunk) * (kChunk / kGroup);
        const std::uint32_t next =
            chunk_at(chunk + 1 < chunks_ ? chunk + 1 : 0) * (kChunk / kGroup);
        if (group + kChunk / kGroup <= groups_)
          multiply_chunk<true>(tile, group, next, sums);
        else
          multiply_chunk<false>(tile, group, next, sums);
      }
      // Not earlier: the first products need not wait for it.
      if (tile == 0) find_factors(base, count);
      finish(tile, sums, base, count);
    }
  }

  using Sums = float[kTiles][kSums][4];
  using X = uint4[kPieces][kPlanes];

  /// A chunk of some tiles, which leaves the x of the next chunk behind. `kIsWhole`: all
  /// groups are there, and no branch keeps one from beginning before the other ends.
  template <bool kIsWhole>
  __device__ void multiply_chunk(std::uint32_t tile, std::uint32_t group, std::uint32_t next,
                                 Sums& sums) {
    [[maybe_unused]] X held;
    if constexpr (kLoadsAhead) {
#pragma unroll
      for (unsigned p = 0; p < kPieces; ++p) held[p][0] = x_[p][0];
      load_x(next);
    }
    const X& x = kLoadsAhead ? held : x_;
    [[maybe_unused]] float x_sums[kPieces][2];
    if constexpr (kIsQuantized)
#pragma unroll
      for (unsigned p = 0; p < kPieces; ++p)
        if (Weights::kHasLeast) sum_up(x_sums[p], x[p]);
#pragma unroll
    for (unsigned r = 0; r < kTiles; ++r) {
      if (tile + r >= share_.tiles) break;
      const bool is_last = r + 1 == kTiles || tile + r + 1 == share_.tiles;
      unsigned seen = 0;
      if (!ring().wait_full(place_)) return;  // the sums are garbage then, and the host is told
#pragma unroll
      for (unsigned p = 0; p < kPieces; ++p) {
        const unsigned mine = p * kWarps + warp_;
        if (kIsWhole || group + mine < groups_)
          seen |= multiply_piece(x[p], mine, sums[r], x_sums[p]);
        if (!kLoadsAhead && is_last) load_piece(p, next);
      }
      ring().release(place_, seen);
      place_.advance();
    }
  }
  /// 32 columns of a tile. Returns what depends on all that was read of the stage.
  __device__ unsigned multiply_piece(const uint4 (&x)[kPlanes], unsigned mine,
                                     float (&sums)[kSums][4], const float (&x_sums)[2]) {
    const unsigned char* low = stage() + at_[0] + mine * kGroupBytes;
    if constexpr (!kWeightsAre16) {
      const uint4 w = Weights::pairs(low + lane_at());
      const uint4 first = x[0];
      const uint4 second = kPlanes == 1 ? uint4{} : x[kPlanes - 1];
      multiply(sums[0], {first.x, second.x, first.y, second.y}, w.x, w.y);
      multiply(sums[0], {first.z, second.z, first.w, second.w}, w.z, w.w);
      return w.w;
    } else {
      const unsigned char* high = stage() + at_[1] + mine * kGroupBytes;
      const Pairs pairs(Weights::pairs(low + lane_at()), Weights::pairs(high + lane_at()));
      if constexpr (kIsQuantized)
        add_scaled<Weights>(sums[0], pairs, x, low, high, x_sums);
      else
        for (unsigned n = 0; n < kPlanes; ++n) {
          multiply(sums[n], pairs.first, x[n].x, x[n].y);
          multiply(sums[n], pairs.second, x[n].z, x[n].w);
        }
      return __float_as_uint(sums[0][0]) | __float_as_uint(sums[0][3]);
    }
  }
  /// The columns of x that this lane needs for a chunk. Past the last ones any will do.
  __device__ void load_x(std::uint32_t group) {
#pragma unroll
    for (unsigned p = 0; p < kPieces; ++p) load_piece(p, group);
  }
  __device__ void load_piece(unsigned p, std::uint32_t group) {
    const std::uint32_t mine = min(group + p * kWarps + warp_, groups_ - 1);
#pragma unroll
    for (unsigned n = 0; n < kPlanes; ++n) {
      const unsigned char* at = rows_[n] + mine * (2 * kGroup);
      if constexpr (kIsQuantized) {
        if (n == 1 && !a_.x_rest) {
          x_[p][n] = {};
          continue;
        }
        const uint2 first = load<uint2>(at);
        const uint2 second = load<uint2>(at + kGroup);
        x_[p][n] = {first.x, first.y, second.x, second.y};
      } else {
        x_[p][n] = load<uint4>(at);
      }
    }
  }

  /// What the norm before this product multiplies each row by. A warp for each row.
  __device__ void find_factors(std::uint32_t base, std::uint32_t count) {
    for (std::uint32_t row = warp_; row < count; row += kWarps) {
      const float factor = norm_factor(a_, index_of_x(base + row));
      if (lane_ == 0) factors()[row] = factor;
    }
  }

  /// Adds the warps' sums up and hands the results on, some tiles at a time.
  __device__ void finish(std::uint32_t tile, const Sums& sums, std::uint32_t base,
                         std::uint32_t count) {
    constexpr unsigned kStride = kOutputs + 1;  // from one row of x to the next
    constexpr unsigned kPart = kRows * kStride;
    __shared__ float parts[kWarps * kPart];
#pragma unroll
    for (unsigned r = 0; r < kTiles; r += kTogether) {
      if (tile + r >= share_.tiles) break;
#pragma unroll
      for (unsigned i = 0; i < kTogether; ++i) {
        float* to = parts + warp_ * kPart + i * kTileRows;
        if constexpr (kWeightsAre16) {
          to += lane_ % 4 * 2 * kStride + lane_ / 4;
#pragma unroll
          for (unsigned n = 0; n < kSums; ++n)
#pragma unroll
            for (unsigned k = 0; k < 4; ++k)
              to[(n * 8 + k % 2) * kStride + k / 2 * 8] = sums[r + i][n][k];
        } else {
          to += lane_ / 4 * kStride + lane_ % 4 * 2;
          to[0] = sums[r + i][0][0];
          to[1] = sums[r + i][0][1];
          if (kRows8 == 2) {
            to[8 * kStride] = sums[r + i][0][2];
            to[8 * kStride + 1] = sums[r + i][0][3];
          }
        }
      }
      synchronize_readers();
      const Result to = result_of(tile + r, count);
      float sum = 0;
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp)
        sum += parts[warp * kPart + to.row * kStride + threadIdx.x % kOutputs];
      if (to.is_real) sum = __fmul_rn(sum, factors()[to.row]);
      if constexpr (Weights::kHasRowScales) sum *= scale_[r / kTogether];
      end(a_, {base + to.row, to.output, to.is_real}, sum, before_[r / kTogether],
          norm_[r / kTogether]);
      synchronize_readers();
    }
  }

  /// What a thread has of some tiles: a row of x and an output.
  struct Result {
    std::uint32_t row;
    std::uint32_t output;
    bool is_real;
  };
  __device__ Result result_of(std::uint32_t tile, std::uint32_t count) const {
    static_assert(kRows * kOutputs == kReaders);
    const std::uint32_t row = threadIdx.x / kOutputs;
    const std::uint32_t one = tile + threadIdx.x % kOutputs / kTileRows;
    return {row, tile_at(one) * kTileRows + threadIdx.x % kTileRows,
            row < count && one < share_.tiles};
  }
  /// What the results will be added to and scaled by, early enough to be there by then.
  __device__ void load_around(std::uint32_t tile, std::uint32_t base, std::uint32_t count) {
    if constexpr (Weights::kHasRowScales) {
#pragma unroll
      for (unsigned r = 0; r < kTiles; r += kTogether) {
        const Result to = result_of(tile + r, count);
        const std::uint32_t row = is_gate() ? to.output / 2 : to.output;
        const float* scales = is_gate() && to.output % 2 != 0 ? a_.up.scales : a_.w.scales;
        if (to.is_real) scale_[r / kTogether] = scales[row];
      }
    }
    if (a_.epilogue != Epilogue::add) return;
#pragma unroll
    for (unsigned r = 0; r < kTiles; r += kTogether) {
      const Result to = result_of(tile + r, count);
      if (!to.is_real) continue;
      before_[r / kTogether] =
          a_.residual.values[static_cast<std::uint64_t>(base + to.row) * a_.w.rows + to.output];
      norm_[r / kTogether] = a_.next_norm[to.output];
    }
  }

  using BlockRing = Ring<kStages, kFillers, kWarps>;
  __device__ static BlockRing& ring() {
    __shared__ BlockRing value;
    return value;
  }
  __device__ static float* factors() {
    __shared__ float values[kRows];
    return values;
  }
  __device__ unsigned char* stage() const {
    extern __shared__ __align__(128) uint4 streamed_stages[];
    return reinterpret_cast<unsigned char*>(streamed_stages) + place_.stage * kStageBytes;
  }

  const StreamedLinearArgs& a_;
  unsigned lane_;
  unsigned warp_;
  Share share_;
  std::uint32_t groups_;
  std::uint32_t chunks_;
  std::uint32_t rotate_;  // the chunk that this block begins with
  typename BlockRing::Place place_;
  unsigned at_[kTileRows / 8];          // this lane's rows in a stage
  const unsigned char* rows_[kPlanes];  // this lane's rows of x
  X x_;                                 // of a chunk
  float before_[kTiles / kTogether];
  float norm_[kTiles / kTogether];
  float scale_[kTiles / kTogether];
};

}  // namespace attacca::kernels::streamed
