// wide_linear.cuh: the CUDA body of thin_linear.hpp for more rows of x than a warp can keep beside
// its weights. A tile is 128 rows of weights, 16 for each warp, and x goes through shared memory in
// pieces of 64 columns. The blocks share the columns of all tiles evenly among them, so a tile may
// be the work of several: each leaves its part in the workspace, and the last one to come adds all
// of them up, in their order.
#pragma once

#include "kernels/cuda/thin_linear.cuh"

namespace attacca::kernels::wide {

using thin::multiply;

constexpr unsigned kWarps = 8;
constexpr unsigned kThreads = kWarps * 32;

/// Weights are read once: not worth a place in L1.
__device__ inline uint4 load_once(const uint4* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

constexpr unsigned kTileRows = 128;
constexpr unsigned kColumns = 64;                      // of a step
constexpr unsigned kChunks = kColumns / 8;             // of 16 bytes
constexpr unsigned kStages = 3;                        // steps in flight
constexpr unsigned kGroups = kColumns / thin::kGroup;  // of a step

__device__ inline void copy_async(uint4* to, const uint4* from, bool is_real) {
  const auto target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from),
               "r"(is_real ? 16 : 0));
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;"); }
template <unsigned kPending>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

template <unsigned kRows8>
class Block {
 public:
  static constexpr unsigned kRows = 8 * kRows8;  // of x at a time

  __device__ Block(const ThinLinearArgs& args)
      : a_(args),
        lane_(threadIdx.x % 32),
        warp_(threadIdx.x / 32),
        steps_(args.w.columns / kColumns),
        row_(args.w.columns / 8) {
    const bool is_gate = args.end == ThinEnd::gate;
    const std::uint32_t tile_rows = is_gate ? kTileRows / 2 : kTileRows;
    const std::uint32_t tiles = (args.w.rows + tile_rows - 1) / tile_rows;
    const bool is_split = args.rows.capacity <= kRows;
    unit_ = is_split ? 1 : steps_;
    units_ = tiles * (steps_ / unit_);
    first_ = start_of(blockIdx.x);
    end_ = start_of(blockIdx.x + 1);
    tile_ = tile_rows * row_;
    // The last tile may have fewer rows: warps past them read row 0 again, for nothing.
    warp_rows_ = tile_rows / kWarps;
    const std::uint32_t mine = lane_ / 4 * row_ + lane_ % 4;
    low_ = static_cast<const uint4*>(args.w.data) + mine;
    high_ = is_gate ? static_cast<const uint4*>(args.up.data) + mine : low_ + 8 * row_;
  }

  __device__ void run(Thread& t) {
    load_first_weights();
    t.release_consumers();
    t.wait_for_producers();
    const std::uint32_t count = min(*a_.rows.count, a_.rows.capacity);
    for (std::uint32_t base = 0; base < count; base += kRows) {
      if (base != 0) load_first_weights();
      pass(base, min(count - base, kRows));
    }
  }

 private:
  /// A part of one tile: steps of columns that this block has. Lengths are taken for multiples of
  /// kStages, so that what is in flight is always in the same registers.
  struct Cursor {
    std::uint32_t tile;
    std::uint32_t first;   // step of the tile
    std::uint32_t length;  // 0 past the end
    std::uint32_t local;   // steps done
    __device__ bool is_real() const { return local < length; }
    __device__ std::uint32_t step() const { return first + local; }
  };

  __device__ std::uint32_t start_of(std::uint64_t block) const {
    return static_cast<std::uint32_t>(block * units_ / gridDim.x) * unit_;
  }
  /// The block that has a step.
  __device__ std::uint32_t block_of(std::uint32_t step) const {
    auto block =
        static_cast<std::uint32_t>(static_cast<std::uint64_t>(step / unit_) * gridDim.x / units_);
    while (start_of(block + 1) <= step) ++block;
    return block;
  }
  __device__ Cursor cursor_at(std::uint32_t step) const {
    if (step >= end_) return {0, 0, 0, 0};
    const std::uint32_t tile = step / steps_;
    const std::uint32_t first = step % steps_;
    return {tile, first, min(steps_ - first, end_ - step), 0};
  }
  __device__ void advance(Cursor& cursor) const {
    if (cursor.length == 0) return;
    if (++cursor.local % kStages == 0 && cursor.local >= cursor.length)
      cursor = cursor_at(cursor.tile * steps_ + cursor.first + cursor.length);
  }

  __device__ void load_first_weights() {
    weights_at_ = cursor_at(first_);
#pragma unroll
    for (unsigned stage = 0; stage < kStages; ++stage) load_weights(stage);
  }
  __device__ void load_weights(unsigned stage) {
    if (weights_at_.is_real()) {
      const std::uint32_t row = weights_at_.tile * (tile_ / row_) + warp_ * warp_rows_;
      const std::uint32_t at = (row < a_.w.rows ? row : 0) * row_ + weights_at_.step() * kChunks;
#pragma unroll
      for (unsigned u = 0; u < kGroups; ++u) {
        weights_[stage][u][0] = load_once(low_ + at + u * 4);
        weights_[stage][u][1] = load_once(high_ + at + u * 4);
      }
    }
    advance(weights_at_);
  }
  /// One step's columns of x. Chunks of odd rows change places, four to the right or left, so that
  /// eight lanes read from all banks.
  __device__ void copy_x(unsigned stage, std::uint32_t base, std::uint32_t count) {
    if (x_at_.is_real()) {
      for (unsigned at = threadIdx.x; at < kRows * kChunks; at += kThreads) {
        const unsigned row = at / kChunks;
        const unsigned chunk = at % kChunks;
        const bool is_real = row < count;
        const std::uint64_t index = base + (is_real ? row : 0);
        const std::uint64_t from = a_.gather ? static_cast<std::uint64_t>(a_.gather[index]) : index;
        copy_async(
            stage_of(stage) + row * kChunks + (chunk ^ (row % 2 * 4)),
            reinterpret_cast<const uint4*>(a_.x) + from * row_ + x_at_.step() * kChunks + chunk,
            is_real);
      }
    }
    commit_copies();
    advance(x_at_);
  }

  __device__ void pass(std::uint32_t base, std::uint32_t count) {
    find_factors(base, count);
    x_at_ = cursor_at(first_);
#pragma unroll
    for (unsigned stage = 0; stage + 1 < kStages; ++stage) copy_x(stage, base, count);
    for (Cursor part = cursor_at(first_); part.length != 0;
         part = cursor_at(part.tile * steps_ + part.first + part.length)) {
      float sums[kRows8][4] = {};
      for (std::uint32_t local = 0; local < part.length; local += kStages) {
#pragma unroll
        for (unsigned stage = 0; stage < kStages; ++stage) {
          wait_for_copies<kStages - 2>();
          __syncthreads();
          copy_x((stage + kStages - 1) % kStages, base, count);
          if (local + stage < part.length) {
#pragma unroll
            for (unsigned u = 0; u < kGroups; ++u) {
              const uint4 low = weights_[stage][u][0];
              const uint4 high = weights_[stage][u][1];
#pragma unroll
              for (unsigned n = 0; n < kRows8; ++n) {
                const unsigned row = n * 8 + lane_ / 4;
                const uint4 x =
                    stage_of(stage)[row * kChunks + ((u * 4 + lane_ % 4) ^ (row % 2 * 4))];
                multiply(sums[n], low.x, high.x, low.y, high.y, x.x, x.y);
                multiply(sums[n], low.z, high.z, low.w, high.w, x.z, x.w);
              }
            }
          }
          load_weights(stage);
        }
      }
      finish(part, sums, base, count);
    }
    wait_for_copies<0>();
    __syncthreads();  // factors and stages are read
  }

  /// As in thin::Block.
  __device__ void find_factors(std::uint32_t base, std::uint32_t count) {
    for (std::uint32_t row = warp_; row < count; row += kWarps) {
      float sum = 0;
      if (a_.squares) {
        const std::uint32_t parts = a_.w.columns / Residual::kPart;
        const std::uint64_t from =
            a_.gather ? static_cast<std::uint64_t>(a_.gather[base + row]) : base + row;
        for (std::uint32_t i = lane_; i < parts; i += 32) sum += a_.squares[from * parts + i];
#pragma unroll
        for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
      }
      if (lane_ == 0)
        factors()[row] =
            a_.squares ? rsqrtf(sum / static_cast<float>(a_.w.columns) + a_.epsilon) : 1.0f;
    }
    __syncthreads();
  }

  __device__ void finish(const Cursor& part, float (&sums)[kRows8][4], std::uint32_t base,
                         std::uint32_t count) {
    if (part.length < steps_ && !is_last_of_tile(part, sums)) return;
    end(part.tile, sums, base, count);
  }

  /// Leaves these sums for others; for the last part of a tile, replaces them by the tile's.
  __device__ bool is_last_of_tile(const Cursor& part, float (&sums)[kRows8][4]) {
    __shared__ bool is_last;
    float4* mine = partials_of(blockIdx.x, part.tile);
#pragma unroll
    for (unsigned n = 0; n < kRows8; ++n)
      __stcg(mine + n * kThreads, make_float4(sums[n][0], sums[n][1], sums[n][2], sums[n][3]));
    __threadfence();
    __syncthreads();
    const std::uint32_t first_block = block_of(part.tile * steps_);
    const std::uint32_t last_block = block_of((part.tile + 1) * steps_ - 1);
    if (threadIdx.x == 0) {
      const unsigned before = atomicAdd(&a_.workspace.arrivals[part.tile], 1u);
      is_last = before == last_block - first_block;
      if (is_last) a_.workspace.arrivals[part.tile] = 0;  // for the next launch
    }
    __syncthreads();
    if (!is_last) return false;
    __threadfence();
#pragma unroll
    for (unsigned n = 0; n < kRows8; ++n)
      for (float& sum : sums[n]) sum = 0;
    for (std::uint32_t block = first_block; block <= last_block; ++block) {
      const float4* from = partials_of(block, part.tile);
#pragma unroll
      for (unsigned n = 0; n < kRows8; ++n) {
        const float4 some = __ldcg(from + n * kThreads);
        sums[n][0] += some.x;
        sums[n][1] += some.y;
        sums[n][2] += some.z;
        sums[n][3] += some.w;
      }
    }
    return true;
  }
  /// A block has a part of at most two tiles that are not its own: its first and its last.
  __device__ float4* partials_of(std::uint32_t block, std::uint32_t tile) const {
    const std::uint32_t slot = 2 * block + (start_of(block) / steps_ == tile ? 0 : 1);
    return reinterpret_cast<float4*>(a_.workspace.partials) +
           static_cast<std::uint64_t>(slot) * kRows8 * kThreads + threadIdx.x;
  }

  /// A lane has rows g and g + 8 of its warp's sixteen, and two rows of x in each eight.
  __device__ void end(std::uint32_t tile, const float (&sums)[kRows8][4], std::uint32_t base,
                      std::uint32_t count) {
    const std::uint64_t outputs = a_.w.rows;
    const std::uint32_t first = tile * (tile_ / row_) + warp_ * warp_rows_;
    if (first >= outputs) return;
    const std::uint32_t low = first + lane_ / 4;
#pragma unroll
    for (unsigned n = 0; n < kRows8; ++n)
#pragma unroll
      for (unsigned i = 0; i < 2; ++i) {
        const std::uint32_t row = n * 8 + lane_ % 4 * 2 + i;
        const bool is_real = row < count;
        const float factor = is_real ? factors()[row] : 0.0f;
        const float a = sums[n][i] * factor;
        const float b = sums[n][2 + i] * factor;
        const std::uint64_t at = (base + row) * outputs + low;
        if (a_.end == ThinEnd::store) {
          if (is_real) {
            a_.y[at] = a + (a_.bias ? a_.bias[low] : 0.0f);
            a_.y[at + 8] = b + (a_.bias ? a_.bias[low + 8] : 0.0f);
          }
        } else if (a_.end == ThinEnd::gate) {
          if (is_real) a_.gated[at] = thin::bfloat_bits(a / (1.0f + __expf(-a)) * b);
        } else {
          float squares = 0;
          if (is_real) squares = add(at, low, a) + add(at + 8, low + 8, b);
#pragma unroll
          for (unsigned step = 16; step >= 4; step /= 2)
            squares += __shfl_xor_sync(~0u, squares, step);
          if (is_real && lane_ < 4)
            a_.residual.squares[(base + row) * a_.residual.parts() + first / Residual::kPart] =
                squares;
        }
      }
  }
  /// Returns the square of the sum.
  __device__ float add(std::uint64_t at, std::uint32_t output, float product) const {
    const float value = a_.residual.values[at] + product;
    a_.residual.values[at] = value;
    a_.residual.scaled[at] = thin::bfloat_bits(value * a_.next_norm[output]);
    return value * value;
  }

  __device__ static float* factors() {
    __shared__ float values[kRows];
    return values;
  }
  __device__ static uint4* stage_of(unsigned stage) {
    __shared__ uint4 stages[kStages][kRows * kChunks];
    return stages[stage];
  }

  const ThinLinearArgs& a_;
  unsigned lane_;
  unsigned warp_;
  std::uint32_t steps_;  // of a tile
  std::uint32_t row_;    // in 16 bytes, of weights and of x
  std::uint32_t unit_;   // steps that stay together
  std::uint32_t units_;
  std::uint32_t first_;  // steps of all tiles, of this block
  std::uint32_t end_;
  std::uint32_t tile_;
  std::uint32_t warp_rows_;
  const uint4* low_;
  const uint4* high_;
  Cursor weights_at_{};
  Cursor x_at_{};
  uint4 weights_[kStages][kGroups][2];
};

}  // namespace attacca::kernels::wide
