// sm90_matrix.cu: warpgroups that multiply the same small matrices in shared memory over and over
// with wgmma, so that nothing but the matrix units can be the limit. Compiled for sm_90a.
#include <attacca/cuda_kernel.hpp>
#include <cstdint>

#include "core/sm90_wgmma.cuh"
#include "roofline/sm90_matrix.hpp"

namespace attacca::roofline {

namespace {

constexpr unsigned kWarpgroups = 2;  // of a block
constexpr unsigned kBlocksPerProcessor = 2;
constexpr unsigned kRounds = 4096;
constexpr unsigned kRows = 64, kColumns = 128;  // of a product
constexpr unsigned kRowBytes = 128;             // of an operand: four products deep
constexpr unsigned kProducts = 4;               // of a round; each takes 32 bytes of every row

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(128 * kWarpgroups, kBlocksPerProcessor)
    matrix_kernel(float* out, unsigned rounds) {
  __shared__ alignas(1024) std::uint32_t operands[(kRows + kColumns) * kRowBytes / 4];
  for (unsigned at = threadIdx.x; at < sizeof operands / 4; at += blockDim.x) {
    // Four positive numbers of fp8, or two of bf16, with bits that change as real ones do.
    operands[at] = 0x38383838u | ((at + 1) * 0x9e3779b9u & 0x07070707u);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const std::uint64_t a = sm90::smem_descriptor(operands);
  const std::uint64_t b = sm90::smem_descriptor(operands + kRows * kRowBytes / 4);
  float c[64] = {};
  for (unsigned round = 0; round < rounds; ++round) {
    sm90::fence_operands(c);
    sm90::wgmma_fence();
#pragma unroll
    for (unsigned product = 0; product < kProducts; ++product) {
      const unsigned further = product * (kRowBytes / kProducts) / 16;
      if constexpr (kArithmetic == Arithmetic::bf16)
        sm90::multiply(c, a + further, b + further);
      else
        sm90::multiply_fp8(c, a + further, b + further);
    }
    sm90::wgmma_commit();
    sm90::wgmma_wait<0>();
  }
  float all = 0;
  for (const float value : c) all += value;
  if (all < 0) *out = all;  // all numbers are positive, and the compiler does not know
}

}  // namespace

double launch_sm90_matrix(StreamRef stream, Arithmetic arithmetic, float* out) {
  static const auto bf16 = cuda_kernel("matrix_bf16", &matrix_kernel<Arithmetic::bf16>);
  static const auto fp8 = cuda_kernel("matrix_fp8", &matrix_kernel<Arithmetic::fp8>);
  const unsigned blocks = stream.device().processors() * kBlocksPerProcessor;
  stream.kernel(arithmetic == Arithmetic::bf16 ? bf16 : fp8,
                Grid{Dim3{blocks}, Dim3{128 * kWarpgroups}}, out, kRounds);
  const double depth = arithmetic == Arithmetic::bf16 ? 16 : 32;
  return 2.0 * kRows * kColumns * depth * kProducts * kRounds * kWarpgroups * blocks;
}

}  // namespace attacca::roofline
