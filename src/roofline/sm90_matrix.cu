// sm90_matrix.cu: warpgroups that multiply the same small matrices in shared memory over and over
// with wgmma, so that nothing but the matrix units and their power can be the limit. The matrices
// are random, as real ones are: constants draw less power and are multiplied faster. Compiled for
// sm_90a.
#include <attacca/cuda_kernel.hpp>
#include <cstdint>

#include "core/sm90_wgmma.cuh"
#include "roofline/sm90_matrix.hpp"

namespace attacca::roofline {

namespace {

constexpr unsigned kWarpgroups = 2;  // of a block
constexpr unsigned kBlocksPerProcessor = 2;
constexpr unsigned kRounds = 4096;
constexpr float kUnlikely = 1.2345e-30f;
constexpr unsigned kRows = 64, kColumns = 128;  // of a product
constexpr unsigned kRowBytes = 128;             // of an operand: four products deep
constexpr unsigned kProducts = 4;               // of a round; each takes 32 bytes of every row
constexpr unsigned kDepth = 64;                 // rounds of a sum, after which a new one begins

/// 32 bits that look random (the last steps of MurmurHash3).
__device__ std::uint32_t mixed(std::uint32_t bits) {
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return bits ^ bits >> 16;
}

/// Two numbers of bf16 or four of fp8 between 1/8 and 2, of either sign.
template <Arithmetic kArithmetic>
__device__ std::uint32_t random_numbers(std::uint32_t seed) {
  return kArithmetic == Arithmetic::bf16 ? 0x3e003e00u | (mixed(seed) & 0x81ff81ffu)
                                         : 0x20202020u | (mixed(seed) & 0x9f9f9f9fu);
}

template <Arithmetic kArithmetic>
__global__ void __launch_bounds__(128 * kWarpgroups, kBlocksPerProcessor)
    matrix_kernel(float* out, unsigned rounds) {
  __shared__ alignas(1024) std::uint32_t operands[(kRows + kColumns) * kRowBytes / 4];
  constexpr unsigned kWords = sizeof operands / 4;
  for (unsigned at = threadIdx.x; at < kWords; at += blockDim.x)
    operands[at] = random_numbers<kArithmetic>(blockIdx.x * kWords + at + 1);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const std::uint64_t a = sm90::smem_descriptor(operands);
  const std::uint64_t b = sm90::smem_descriptor(operands + kRows * kRowBytes / 4);
  float c[64] = {};
  float all = 0;
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
    if (round % kDepth == kDepth - 1)
      for (float& value : c) {
        all += value;
        value = 0;
      }
  }
  if (all == kUnlikely) *out = all;  // or the compiler would drop the products
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
