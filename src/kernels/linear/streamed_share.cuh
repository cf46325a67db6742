// streamed_share.cuh: what streamed_linear.cuh and sm90_same_bits_linear.cuh must do alike for a
// row to be the same bits in both: which tiles and which columns a block begins with, what the norm
// before a product comes to, and what becomes of a sum.
#pragma once

#include <cuda_bf16.h>

#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels::streamed {

constexpr unsigned kWarps = 8;     // that multiply
constexpr unsigned kGroup = 32;    // columns that a warp takes at a time
constexpr unsigned kChunk = 1024;  // columns that come one after another: long runs, for each costs
                                   // TMA some 40 ns

/// A block's tiles.
struct Share {
  std::uint32_t first;
  std::uint32_t tiles;
};
/// Nothing is asked for before it is known, so it is found with one division of 32 bits. Outputs
/// whose squares are summed up together stay together; others are parted where that makes the
/// largest share smaller.
template <unsigned kTileRows>
__device__ inline Share share_of(const StreamedLinearArgs& a, std::uint32_t block = blockIdx.x) {
  constexpr unsigned kPair = Residual::kPart / kTileRows;
  const std::uint32_t parts =
      a.w.rows / (a.epilogue == Epilogue::gate ? Residual::kPart / 2 : Residual::kPart);
  std::uint32_t each = parts / gridDim.x;
  std::uint32_t more = parts - each * gridDim.x;  // blocks that have one more
  std::uint32_t width = kPair;
  if (kPair == 2 && a.epilogue != Epilogue::add && 2 * more <= gridDim.x) {
    each *= 2;
    more *= 2;
    width = 1;
  }
  return {width * (block * each + min(block, more)), width * (each + (block < more ? 1 : 0))};
}
/// Blocks begin at different columns, or all would ask the same memory channels at a time. Two
/// neighbours begin at the same ones, and can share x.
__device__ inline std::uint32_t first_chunk(std::uint32_t chunks) {
  return blockIdx.x / 2 % chunks;
}

/// What the norm before a product multiplies a row of x by. All lanes of a warp call.
__device__ inline float norm_factor(const StreamedLinearArgs& a, std::uint64_t row) {
  if (!a.squares) return 1;
  const std::uint32_t parts = a.w.columns / Residual::kPart;
  const float* squares = a.squares + row * parts;
  float sum = 0;
  for (std::uint32_t i = threadIdx.x % 32; i < parts; i += 32) sum += squares[i];
#pragma unroll
  for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  return rsqrtf(sum / static_cast<float>(a.w.columns) + a.epsilon);
}

/// A number in bf16, and what that leaves where it is wanted.
__device__ inline void put(std::uint16_t* to, std::uint16_t* rest, std::uint64_t at, float value) {
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  to[at] = __bfloat16_as_ushort(rounded);
  if (rest) rest[at] = __bfloat16_as_ushort(__float2bfloat16_rn(value - __bfloat162float(rounded)));
}

/// Which sum a thread has. Of a gate and its partner the outputs take turns.
struct Output {
  std::uint64_t row;  // of x
  std::uint32_t output;
  bool is_real;
};
/// One result. Called by whole warps, each with neighbouring outputs of one or two rows. Products
/// and sums are rounded one by one, or it would depend on the compiler which are not.
__device__ inline void end(const StreamedLinearArgs& a, const Output& to, float sum, float before,
                           float norm) {
  const std::uint64_t outputs = a.w.rows;
  const std::uint64_t at = to.row * outputs + to.output;
  if (a.epilogue == Epilogue::store) {
    if (to.is_real) a.y[at] = __fadd_rn(sum, a.bias ? a.bias[to.output] : 0.0f);
  } else if (a.epilogue == Epilogue::gate) {
    const float up = __shfl_down_sync(~0u, sum, 1);
    if (to.is_real && to.output % 2 == 0)
      put(a.gated, a.gated_rest, to.row * outputs + to.output / 2,
          __fmul_rn(sum / (1.0f + __expf(-sum)), up));
  } else {
    float square = 0;
    if (to.is_real) {
      const float value = __fadd_rn(before, sum);
      a.residual.values[at] = value;
      put(a.residual.scaled, a.residual.rest, at, __fmul_rn(value, norm));
      square = __fmul_rn(value, value);
    }
#pragma unroll
    for (unsigned step = Residual::kPart / 2; step != 0; step /= 2)
      square += __shfl_xor_sync(~0u, square, step);
    if (to.is_real && to.output % Residual::kPart == 0)
      a.residual.squares[to.row * a.residual.parts() + to.output / Residual::kPart] = square;
  }
}

}  // namespace attacca::kernels::streamed
