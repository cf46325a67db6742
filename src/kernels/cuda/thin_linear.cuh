// thin_linear.cuh: the CUDA body of thin_linear.hpp for up to 16 rows of x. A block has a run of
// tiles, 8 rows of weights each. Two warps have the copy engine stream them into a ring of stages
// in shared memory; eight warps share the columns among them and add up after some tiles. Which
// columns meet in one instruction of the tensor cores is free as long as weights and x agree, so a
// lane's 16 bytes are what it reads of both.
//
// The first stages are filled before the kernel waits for its producers, and the next kernel may
// start when the last one is asked for: memory does not idle while one kernel ends and the next
// begins. The ring is so small that the stages of both fit.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/ring.cuh"
#include "kernels/thin_linear.hpp"

namespace attacca::kernels::thin {

constexpr unsigned kWarps = 8;    // that multiply
constexpr unsigned kFillers = 2;  // that have weights copied
constexpr unsigned kReaders = kWarps * 32;
constexpr unsigned kTileRows = 8;
constexpr unsigned kTiles = 4;       // for which x is read once
constexpr unsigned kGroup = 32;      // columns that a warp takes at a time
constexpr unsigned kColumns = 1024;  // of a stage: long runs, for each costs the engine some 40 ns
constexpr unsigned kSharedBytes = 6 * 8 * (2 * kColumns + 64);

/// c += a b for 16 rows of x, 16 columns and 8 rows of weights.
__device__ inline void multiply(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline std::uint16_t bfloat_bits(float value) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

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

/// For up to 8 * kRows8 rows of x at a time.
template <unsigned kRows8>
class Block {
 public:
  static constexpr unsigned kRows = 8 * kRows8;
  // Columns whose x a warp has in registers, and groups of them.
  static constexpr unsigned kChunk = kColumns;
  static constexpr unsigned kPieces = kChunk / kGroup / kWarps;
  static constexpr unsigned kRowBytes = 2 * kChunk + 64;  // lanes of two rows reach all banks
  static constexpr unsigned kStageBytes = kTileRows * kRowBytes;
  static constexpr unsigned kStages = kSharedBytes / kStageBytes;
  // Tiles and outputs whose sums the warps add up at a time.
  static constexpr unsigned kTogether = 4 / kRows8;
  static constexpr unsigned kOutputs = kTogether * kTileRows;

  __device__ explicit Block(const ThinLinearArgs& args)
      : a_(args), lane_(threadIdx.x % 32), warp_(threadIdx.x / 32) {
    // Pairs of tiles stay together: their squares are summed up together.
    const std::uint64_t pairs = args.w.rows / (is_gate() ? kTileRows : 2 * kTileRows);
    first_ = 2 * static_cast<std::uint32_t>(blockIdx.x * pairs / gridDim.x);
    tiles_ = 2 * static_cast<std::uint32_t>((blockIdx.x + 1) * pairs / gridDim.x) - first_;
    groups_ = args.w.columns / kGroup;
    chunks_ = (args.w.columns + kChunk - 1) / kChunk;
    rotate_ = blockIdx.x % chunks_;
  }

  __device__ void run(Thread& t) {
    if (threadIdx.x == 0) ring().open();
    __syncthreads();
    if (warp_ >= kWarps) return fill(t);
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

 private:
  /// Blocks begin at different columns, or all would ask the same memory channels at a time.
  __device__ std::uint32_t chunk_at(std::uint32_t index) const {
    const std::uint32_t at = index + rotate_;
    return at < chunks_ ? at : at - chunks_;
  }
  __device__ std::uint32_t tile_at(std::uint32_t index) const { return first_ + index; }
  __device__ bool is_gate() const { return a_.end == ThinEnd::gate; }
  /// The plan of a step stands before its first kernel starts: it need not be waited for.
  __device__ std::uint32_t count_of_rows() const { return min(*a_.rows.count, a_.rows.capacity); }

  /// The filling warps: all tiles, once for every kRows rows of x.
  __device__ void fill(Thread& t) {
    const std::uint32_t count = count_of_rows();
    unsigned filled = 0;
    for (std::uint32_t base = 0; base < count || base == 0; base += kRows)
      for (std::uint32_t tile = 0; tile < tiles_; tile += kTiles)
        for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk)
          for (std::uint32_t one = tile; one < min(tile + kTiles, tiles_); ++one) {
            if (count == 0 && filled++ == kStages) return;
            fill_stage(tile_at(one), chunk_at(chunk) * kChunk);
          }
    t.release_consumers();
    prefetch_next();
  }
  /// This warp's rows of it. Of two matrices the rows take turns, so that partners meet in a lane.
  __device__ void fill_stage(std::uint32_t tile, std::uint32_t column) {
    constexpr unsigned kRowsEach = kTileRows / kFillers;
    const unsigned bytes = 2 * min(a_.w.columns - column, kChunk);
    ring().begin_fill(place_, kRowsEach * bytes);
    if (lane_ < kRowsEach) {
      const unsigned place = (warp_ - kWarps) * kRowsEach + lane_;
      const std::uint64_t row =
          is_gate() ? tile * (kTileRows / 2) + place / 2 : tile * kTileRows + place;
      const void* matrix = is_gate() && place % 2 != 0 ? a_.up.data : a_.w.data;
      ring().copy(place_, stage() + place * kRowBytes,
                  static_cast<const unsigned char*>(matrix) + 2 * (row * a_.w.columns + column),
                  bytes);
    }
    place_.advance();
  }
  /// Memory works on while this kernel ends and the next one begins.
  __device__ void prefetch_next() const {
    if (lane_ >= ThinLinearArgs::kMaxNext / kFillers) return;
    const Upcoming& next =
        a_.next[(warp_ - kWarps) * (ThinLinearArgs::kMaxNext / kFillers) + lane_];
    if (next.bytes == 0) return;
    // A block's share of it begins where the next kernel's block begins.
    const std::uint64_t share = next.bytes / gridDim.x / 16 * 16;
    const auto* from = static_cast<const unsigned char*>(next.data) + blockIdx.x * share;
    prefetch(from, static_cast<unsigned>(min(share, static_cast<std::uint64_t>(next.most))));
  }
  /// What is on its way must come before the block may end.
  __device__ void drain() {
    for (std::uint32_t i = 0; i < min(tiles_ * chunks_, kStages); ++i) {
      ring().wait_full(place_);
      place_.advance();
    }
  }

  __device__ std::uint64_t index_of_x(std::uint32_t row) const {
    return a_.gather ? static_cast<std::uint64_t>(a_.gather[row]) : row;
  }
  __device__ void find_rows(std::uint32_t base, std::uint32_t count) {
#pragma unroll
    for (unsigned n = 0; n < kRows8; ++n) {
      const std::uint32_t row = base + n * 8 + lane_ / 4;
      rows_[n] =
          row < count
              ? reinterpret_cast<const uint4*>(a_.x + index_of_x(row) * a_.w.columns) + lane_ % 4
              : nullptr;
    }
  }

  /// The other warps: all tiles of the block for up to kRows rows of x.
  __device__ void pass(std::uint32_t base, std::uint32_t count) {
    load_x(chunk_at(0) * (kChunk / kGroup));
    find_factors(base, count);
    for (std::uint32_t tile = 0; tile < tiles_; tile += kTiles) {
      float sums[kTiles][4] = {};
      load_residual(tile, base, count);
      for (std::uint32_t chunk = 0; chunk < chunks_; ++chunk) {
        const std::uint32_t group = chunk_at(chunk) * (kChunk / kGroup);
        uint4 x[kPieces][kRows8];
#pragma unroll
        for (unsigned p = 0; p < kPieces; ++p)
#pragma unroll
          for (unsigned n = 0; n < kRows8; ++n) x[p][n] = x_[p][n];
        load_x(chunk_at(chunk + 1 < chunks_ ? chunk + 1 : 0) * (kChunk / kGroup));
#pragma unroll
        for (unsigned r = 0; r < kTiles; ++r) {
          if (tile + r >= tiles_) break;
          ring().wait_full(place_);
          const unsigned char* row = stage() + lane_ / 4 * kRowBytes + lane_ % 4 * 16;
#pragma unroll
          for (unsigned p = 0; p < kPieces; ++p) {
            const unsigned mine = p * kWarps + warp_;
            if (group + mine >= groups_) break;
            const uint4 w = *reinterpret_cast<const uint4*>(row + mine * (2 * kGroup));
            const uint4 low = x[p][0];
            const uint4 high = kRows8 == 1 ? uint4{} : x[p][kRows8 - 1];
            multiply(sums[r], low.x, high.x, low.y, high.y, w.x, w.y);
            multiply(sums[r], low.z, high.z, low.w, high.w, w.z, w.w);
          }
          ring().release(place_);
          place_.advance();
        }
      }
      finish(tile, sums, base, count);
    }
  }
  /// The columns of x that this lane needs for a chunk.
  __device__ void load_x(std::uint32_t group) {
#pragma unroll
    for (unsigned p = 0; p < kPieces; ++p) {
      const std::uint32_t mine = group + p * kWarps + warp_;
#pragma unroll
      for (unsigned n = 0; n < kRows8; ++n)
        x_[p][n] = rows_[n] && mine < groups_ ? rows_[n][mine * (kGroup / 8)] : uint4{};
    }
  }

  /// What the norm before this product multiplies each row by. A warp for each row.
  __device__ void find_factors(std::uint32_t base, std::uint32_t count) {
    for (std::uint32_t row = warp_; row < count; row += kWarps) {
      float factor = 1;
      if (a_.squares) {
        const std::uint32_t parts = a_.w.columns / Residual::kPart;
        const float* squares = a_.squares + index_of_x(base + row) * parts;
        float sum = 0;
        for (std::uint32_t i = lane_; i < parts; i += 32) sum += squares[i];
#pragma unroll
        for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
        factor = rsqrtf(sum / static_cast<float>(a_.w.columns) + a_.epsilon);
      }
      if (lane_ == 0) factors()[row] = factor;
    }
  }

  /// Adds the warps' sums up and hands the results on, some tiles at a time.
  __device__ void finish(std::uint32_t tile, const float (&sums)[kTiles][4], std::uint32_t base,
                         std::uint32_t count) {
    constexpr unsigned kStride = kOutputs + 1;  // from one row of x to the next
    constexpr unsigned kPart = kRows * kStride;
    __shared__ float parts[kWarps * kPart];
#pragma unroll
    for (unsigned r = 0; r < kTiles; r += kTogether) {
      if (tile + r >= tiles_) break;
#pragma unroll
      for (unsigned i = 0; i < kTogether; ++i) {
        float* to = parts + warp_ * kPart + lane_ / 4 * kStride + i * kTileRows + lane_ % 4 * 2;
        to[0] = sums[r + i][0];
        to[1] = sums[r + i][1];
        if (kRows8 == 2) {
          to[8 * kStride] = sums[r + i][2];
          to[8 * kStride + 1] = sums[r + i][3];
        }
      }
      synchronize_readers();
      const Result to = result_of(tile + r, count);
      float sum = 0;
#pragma unroll
      for (unsigned warp = 0; warp < kWarps; ++warp)
        sum += parts[warp * kPart + to.row * kStride + threadIdx.x % kOutputs];
      if (to.is_real) sum *= factors()[to.row];
      end(to, base + to.row, sum, before_[r / kTogether], norm_[r / kTogether]);
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
    return {row, tile_at(one) * kTileRows + threadIdx.x % kTileRows, row < count && one < tiles_};
  }
  /// What the results will be added to and scaled by, early enough to be there by then.
  __device__ void load_residual(std::uint32_t tile, std::uint32_t base, std::uint32_t count) {
    if (a_.end != ThinEnd::add) return;
#pragma unroll
    for (unsigned r = 0; r < kTiles; r += kTogether) {
      const Result to = result_of(tile + r, count);
      if (!to.is_real) continue;
      before_[r / kTogether] =
          a_.residual.values[static_cast<std::uint64_t>(base + to.row) * a_.w.rows + to.output];
      norm_[r / kTogether] = a_.next_norm[to.output];
    }
  }

  /// One result. Called by whole warps, each with neighbouring outputs of one or two rows.
  __device__ void end(const Result& to, std::uint32_t n, float sum, float before, float norm) {
    const std::uint32_t output = to.output;
    const bool is_real = to.is_real;
    const std::uint64_t outputs = a_.w.rows;
    if (a_.end == ThinEnd::store) {
      if (is_real) a_.y[n * outputs + output] = sum + (a_.bias ? a_.bias[output] : 0.0f);
    } else if (a_.end == ThinEnd::gate) {
      const float up = __shfl_down_sync(~0u, sum, 1);
      if (is_real && output % 2 == 0)
        a_.gated[n * outputs + output / 2] = bfloat_bits(sum / (1.0f + __expf(-sum)) * up);
    } else {
      float square = 0;
      if (is_real) {
        const std::uint64_t at = n * outputs + output;
        const float value = before + sum;
        a_.residual.values[at] = value;
        a_.residual.scaled[at] = bfloat_bits(value * norm);
        square = value * value;
      }
#pragma unroll
      for (unsigned step = Residual::kPart / 2; step != 0; step /= 2)
        square += __shfl_xor_sync(~0u, square, step);
      if (is_real && output % Residual::kPart == 0)
        a_.residual.squares[n * a_.residual.parts() + output / Residual::kPart] = square;
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
    extern __shared__ uint4 thin_stages[];
    return reinterpret_cast<unsigned char*>(thin_stages) + place_.stage * kStageBytes;
  }

  const ThinLinearArgs& a_;
  unsigned lane_;
  unsigned warp_;
  std::uint32_t first_;
  std::uint32_t tiles_;  // of this block
  std::uint32_t groups_;
  std::uint32_t chunks_;
  std::uint32_t rotate_;  // the chunk that this block begins with
  typename BlockRing::Place place_;
  const uint4* rows_[kRows8];  // this lane's rows of x; null past the last
  uint4 x_[kPieces][kRows8];   // of the next chunk
  float before_[kTiles / kTogether];
  float norm_[kTiles / kTogether];
};

}  // namespace attacca::kernels::thin
