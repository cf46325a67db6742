// sm90_wgmma.cuh: inline PTX for wgmma, the warpgroup GEMM of compute capability 9.0. Operands are
// in shared memory, as sm90_descriptor.cuh describes them, or the first one in registers. Only
// files for sm_90a include this.
#pragma once

#include <cstdint>

#include "core/sm90_descriptor.cuh"

namespace attacca::sm90 {

/// Products are asynchronous and committed in groups. `c` belongs to them until wgmma_wait returns.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <unsigned kNewest>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kNewest) : "memory");
}
/// Tells the compiler that accumulators change, or operands are read, asynchronously.
template <unsigned kCount>
__device__ inline void fence_operands(float (&c)[kCount]) {
#pragma unroll
  for (unsigned i = 0; i < kCount; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
template <unsigned kCount>
__device__ inline void fence_operands(std::uint32_t (&a)[kCount]) {
#pragma unroll
  for (unsigned i = 0; i < kCount; ++i) asm volatile("" : "+r"(a[i])::"memory");
}

// The accumulators of a lane, as asm names them and as it takes them.
// clang-format off
#define ATTACCA_NAMES_32                 \
  "%0, %1, %2, %3, %4, %5, %6, %7, "         \
  "%8, %9, %10, %11, %12, %13, %14, %15, "   \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define ATTACCA_NAMES_64                 \
  ATTACCA_NAMES_32 ", "                  \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define ATTACCA_NAMES_128                \
  ATTACCA_NAMES_64 ", "                  \
  "%64, %65, %66, %67, %68, %69, %70, %71, "         \
  "%72, %73, %74, %75, %76, %77, %78, %79, "         \
  "%80, %81, %82, %83, %84, %85, %86, %87, "         \
  "%88, %89, %90, %91, %92, %93, %94, %95, "         \
  "%96, %97, %98, %99, %100, %101, %102, %103, "     \
  "%104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define ATTACCA_SUMS_8(c, i)                                                       \
  "+f"(c[(i)]), "+f"(c[(i) + 1]), "+f"(c[(i) + 2]), "+f"(c[(i) + 3]), "+f"(c[(i) + 4]), \
  "+f"(c[(i) + 5]), "+f"(c[(i) + 6]), "+f"(c[(i) + 7])
#define ATTACCA_SUMS_32(c, i) \
  ATTACCA_SUMS_8(c, i), ATTACCA_SUMS_8(c, (i) + 8), ATTACCA_SUMS_8(c, (i) + 16), ATTACCA_SUMS_8(c, (i) + 24)
// clang-format on

// c += a b for 64 rows of a, 64, 128 or 256 rows of b and 16 columns of both.
#define ATTACCA_MULTIPLY(function, type)                                                           \
  __device__ inline void function(float(&c)[32], std::uint64_t a, std::uint64_t b) {               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" ATTACCA_NAMES_32 \
                 "}, %32, %33, 1, 1, 1, 0, 0;"                                                     \
                 : ATTACCA_SUMS_32(c, 0)                                                           \
                 : "l"(a), "l"(b));                                                                \
  }                                                                                                \
  __device__ inline void function(float(&c)[64], std::uint64_t a, std::uint64_t b) {               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                      \
                 " {" ATTACCA_NAMES_64 "}, %64, %65, 1, 1, 1, 0, 0;"                               \
                 : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)                                   \
                 : "l"(a), "l"(b));                                                                \
  }                                                                                                \
  __device__ inline void function(float(&c)[128], std::uint64_t a, std::uint64_t b) {              \
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                      \
                 " {" ATTACCA_NAMES_128 "}, %128, %129, 1, 1, 1, 0, 0;"                            \
                 : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32), ATTACCA_SUMS_32(c, 64),          \
                   ATTACCA_SUMS_32(c, 96)                                                          \
                 : "l"(a), "l"(b));                                                                \
  }
ATTACCA_MULTIPLY(multiply, "bf16")
ATTACCA_MULTIPLY(multiply_f16, "f16")
#undef ATTACCA_MULTIPLY

/// The same in bf16 with a in registers: a lane of warp w holds the pairs of a that mma.m16n8k16
/// wants, for rows 16 w and on.
__device__ inline void multiply(float (&c)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" ATTACCA_NAMES_32
               "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
               : ATTACCA_SUMS_32(c, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply(float (&c)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ATTACCA_NAMES_64
               "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
               : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply(float (&c)[128], const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" ATTACCA_NAMES_128
               "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 0;"
               : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32), ATTACCA_SUMS_32(c, 64),
                 ATTACCA_SUMS_32(c, 96)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
/// c += a b for 64 rows of a, 128 rows of b and 32 columns of e4m3 of both.
__device__ inline void multiply_fp8(float (&c)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" ATTACCA_NAMES_64
               "}, %64, %65, 1, 1, 1;"
               : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)
               : "l"(a), "l"(b));
}

/// c = a b, or c += a b where `kAdds`, for 64 rows of a, 128 rows of b and 16 columns of both.
template <bool kIsBfloat, bool kAdds>
__device__ inline void multiply_rows(float (&c)[64], std::uint64_t a, std::uint64_t b) {
  if constexpr (kIsBfloat)
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ATTACCA_NAMES_64
                 "}, %64, %65, %66, 1, 1, 0, 0;"
                 : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)
                 : "l"(a), "l"(b), "n"(kAdds ? 1 : 0));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" ATTACCA_NAMES_64
                 "}, %64, %65, %66, 1, 1, 0, 0;"
                 : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)
                 : "l"(a), "l"(b), "n"(kAdds ? 1 : 0));
}
/// c += a b (or c = a b, as above) for 64 rows of a, 16 rows of b and 64 or 128 columns of b. A
/// lane of warp w holds the pairs of a that mma.m16n8k16 wants, for rows 16 w and on. `b` is a
/// column_descriptor.
template <bool kIsBfloat, bool kAdds = true>
__device__ inline void multiply_columns(float (&c)[32], const std::uint32_t* a, std::uint64_t b) {
  if constexpr (kIsBfloat)
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" ATTACCA_NAMES_32
                 "}, {%32, %33, %34, %35}, %36, %37, 1, 1, 1;"
                 : ATTACCA_SUMS_32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" ATTACCA_NAMES_32
                 "}, {%32, %33, %34, %35}, %36, %37, 1, 1, 1;"
                 : ATTACCA_SUMS_32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kAdds ? 1 : 0));
}
template <bool kIsBfloat>
__device__ inline void multiply_columns(float (&c)[64], const std::uint32_t* a, std::uint64_t b) {
  if constexpr (kIsBfloat)
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" ATTACCA_NAMES_64
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  else
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" ATTACCA_NAMES_64
                 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : ATTACCA_SUMS_32(c, 0), ATTACCA_SUMS_32(c, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef ATTACCA_NAMES_32
#undef ATTACCA_NAMES_64
#undef ATTACCA_NAMES_128
#undef ATTACCA_SUMS_8
#undef ATTACCA_SUMS_32

}  // namespace attacca::sm90
