// sm90_matrix.cu: warpgroups that multiply the same small matrices in shared memory over and over
// with wgmma, so that nothing but the matrix units can be the limit. Compiled for sm_90a.
#include <attacca/cuda_kernel.hpp>
#include <cstdint>

#include "roofline/sm90_matrix.hpp"

namespace attacca::roofline {

namespace {

constexpr unsigned kWarpgroups = 2;  // of a block
constexpr unsigned kBlocksPerProcessor = 2;
constexpr unsigned kRounds = 4096;
constexpr unsigned kRows = 64, kColumns = 128;  // of a product
constexpr unsigned kRowBytes = 128;             // of an operand: four products deep
constexpr unsigned kProducts = 4;               // of a round; each takes 32 bytes of every row

/// The descriptor of a matrix with rows of 128 bytes, swizzled.
__device__ std::uint64_t descriptor(const void* matrix) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(matrix));
  constexpr std::uint64_t kSwizzled = std::uint64_t{1} << 62;
  constexpr std::uint64_t kEightRows = std::uint64_t{8 * kRowBytes / 16} << 32;
  return kSwizzled | kEightRows | std::uint64_t{1} << 16 | (address & 0x3ffffu) >> 4;
}

/// c += a b for 64 by 128 results and 16 columns of bf16.
__device__ void multiply_bf16(float (&c)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 0;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]),
        "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
        "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
        "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
        "+f"(c[63])
      : "l"(a), "l"(b));
}

/// The same for 32 columns of fp8.
__device__ void multiply_fp8(float (&c)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1;"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]),
        "+f"(c[7]), "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]),
        "+f"(c[14]), "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]),
        "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]),
        "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]),
        "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]),
        "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
        "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
        "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]),
        "+f"(c[63])
      : "l"(a), "l"(b));
}

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
  const std::uint64_t a = descriptor(operands);
  const std::uint64_t b = descriptor(operands + kRows * kRowBytes / 4);
  float c[64] = {};
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned i = 0; i < 64; ++i) asm volatile("" : "+f"(c[i])::"memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (unsigned product = 0; product < kProducts; ++product) {
      const unsigned further = product * (kRowBytes / kProducts) / 16;
      if constexpr (kArithmetic == Arithmetic::bf16)
        multiply_bf16(c, a + further, b + further);
      else
        multiply_fp8(c, a + further, b + further);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
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
