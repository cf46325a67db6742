// sum_order.cuh: an order in which a product is summed up that streamed_linear.cuh and
// sm90_tiled_linear.cuh can share: a row of x has the same bits whichever of them multiplies it, in
// whatever grid and beside whatever other rows. The epilogue is the same in any order. Each step is
// rounded as written here; contracted ones would depend on the compiler.
//
// The columns of a row of weights are cut into chunks of 1024, and each chunk into eight runs of
// 128. Run c of all chunks is class c. Each class is one chain of tensor-core instructions, 16
// contiguous columns at a time, chunk by chunk; mma.sync and wgmma give the same bits. The sums of
// the classes are then added from the first to the last. Rows of weights begin with different
// chunks, or all blocks would use the same memory channels at a time.
#pragma once

#include <cuda_bf16.h>

#include "kernels/linear/streamed_linear.hpp"

namespace attacca::kernels::sum_order {

constexpr unsigned kChunk = 1024;  // columns
constexpr unsigned kClasses = 8;
constexpr unsigned kRun = kChunk / kClasses;
constexpr unsigned kRowsTogether = 512;  // rows of weights that begin with the same chunk

__device__ inline std::uint32_t chunks_of(std::uint32_t columns) {
  return (columns + kChunk - 1) / kChunk;
}
/// The chunk that a row of weights begins with, by a mask instead of a remainder, since nothing can
/// be requested before it is known. Rows of a gate and its partner count alternately.
__device__ inline std::uint32_t first_chunk(std::uint32_t row, std::uint32_t chunks) {
  return row / kRowsTogether & ((1u << (31 - __clz(static_cast<int>(chunks)))) - 1);
}

/// The RMS norm's factor from the sum of the squares. The squares of a row, one for each
/// Residual::kPart columns, are added up by 32 sums in turn, which are then added in a butterfly of
/// distances 16, 8, 4, 2 and 1.
__device__ inline float norm_factor(float sum, std::uint32_t columns, float epsilon) {
  return rsqrtf(__fadd_rn(__fdiv_rn(sum, static_cast<float>(columns)), epsilon));
}

/// a / b for b >= 1, rounded as a division is (beyond 2^126 as if b were that), but without the
/// branch that divisions have for extremes: so the divisions of a lane are under way together.
__device__ inline float divided(float a, float b) {
  b = fminf(b, 0x1p126f);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = fmaf(inverse, fmaf(-b, inverse, 1.0f), inverse);
  float quotient = __fmul_rn(a, inverse);
  quotient = fmaf(inverse, fmaf(-b, quotient, a), quotient);
  return fmaf(inverse, fmaf(-b, quotient, a), quotient);
}
/// silu(gate) * up.
__device__ inline float gated(float gate, float up) {
  return __fmul_rn(divided(gate, __fadd_rn(1.0f, __expf(-gate))), up);
}
/// A product's sum with the norm's factor, and with what is added to it: a bias or the residual.
__device__ inline float scaled_sum(float sum, float factor, float more) {
  return __fadd_rn(__fmul_rn(sum, factor), more);
}

}  // namespace attacca::kernels::sum_order
