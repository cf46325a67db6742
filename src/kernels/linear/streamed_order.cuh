// streamed_order.cuh: the order of work that streamed_linear.cuh and sm90_same_bits_linear.cuh
// share, so that a row has the same bits in both: the tiles of a block, the columns it starts with,
// the norm factor of a row, and the epilogue of a sum. The products themselves are in
// streamed_multiply.cuh.
#pragma once

#include <cuda_bf16.h>

#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels::streamed {

constexpr unsigned kConsumerWarps = 8;
constexpr unsigned kGroup = 32;    // columns that a warp multiplies at a time
constexpr unsigned kChunk = 1024;  // contiguous columns of a copy; a TMA request takes some 40 ns

/// The run of tiles that a block computes.
struct TileRange {
  std::uint32_t first;
  std::uint32_t count;
};
/// No weights can be requested before this is known, so it takes one 32-bit division. Outputs whose
/// squares are summed together stay in one block. Other pairs of tiles are separated where that
/// makes the largest run shorter.
template <unsigned kTileRows>
__device__ inline TileRange tile_range(const StreamedLinearArgs& a,
                                       std::uint32_t block = blockIdx.x) {
  constexpr unsigned kTilesPerPart = Residual::kPart / kTileRows;
  const std::uint32_t parts =
      a.w.rows / (a.epilogue == Epilogue::gate ? Residual::kPart / 2 : Residual::kPart);
  std::uint32_t each = parts / gridDim.x;
  std::uint32_t more = parts - each * gridDim.x;  // blocks that have one part more
  std::uint32_t width = kTilesPerPart;
  if (kTilesPerPart == 2 && a.epilogue != Epilogue::add && 2 * more <= gridDim.x) {
    each *= 2;
    more *= 2;
    width = 1;
  }
  return {width * (block * each + min(block, more)), width * (each + (block < more ? 1 : 0))};
}
/// Blocks begin at different columns, or all would use the same memory channels at a time. Two
/// neighbouring blocks begin at the same columns and can share x.
__device__ inline std::uint32_t first_chunk(std::uint32_t chunks) {
  return blockIdx.x / 2 % chunks;
}

/// The RMS norm's factor for a row of x. All lanes of a warp call.
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

/// Stores a number as bf16, and its rounding error where `rest` is wanted.
__device__ inline void put(std::uint16_t* to, std::uint16_t* rest, std::uint64_t at, float value) {
  const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
  to[at] = __bfloat16_as_ushort(rounded);
  if (rest) rest[at] = __bfloat16_as_ushort(__float2bfloat16_rn(value - __bfloat162float(rounded)));
}

/// The output that a thread stores. Outputs of a gate and its partner alternate.
struct Output {
  std::uint64_t row;  // of x
  std::uint32_t output;
  bool is_real;
};
/// Applies the epilogue to one sum. Whole warps call it, each with neighbouring outputs of one or
/// two rows. Products and sums are rounded one by one; contracted ones would depend on the
/// compiler.
__device__ inline void apply_epilogue(const StreamedLinearArgs& a, const Output& to, float sum,
                                      float residual, float norm) {
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
      const float value = __fadd_rn(residual, sum);
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
