// attention_ptx.cuh: inline PTX for attention: conversions, mma, ldmatrix, cp.async and ordered
// counters. No algorithm lives here.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace attacca::kernels::attending {

/// Rounds two floats to a pair of 16-bit numbers, the first in the low half.
template <bool kIsBfloat>
__device__ inline std::uint32_t pair_of(float low, float high) {
  std::uint32_t pair;
  if constexpr (kIsBfloat)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <bool kIsBfloat>
__device__ inline float2 floats_of(std::uint32_t pair) {
  if constexpr (kIsBfloat) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  } else {
    const __half2 halves = *reinterpret_cast<const __half2*>(&pair);
    return __half22float2(halves);
  }
}

/// c += a b, where a is 16 by 16 and b is 16 by 8.
template <bool kIsBfloat>
__device__ inline void mma(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                           std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  if constexpr (kIsBfloat)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/// c = a b.
template <bool kIsBfloat>
__device__ inline void mma_first(float (&c)[4], std::uint32_t a0, std::uint32_t a1,
                                 std::uint32_t a2, std::uint32_t a3, std::uint32_t b0,
                                 std::uint32_t b1) {
  if constexpr (kIsBfloat)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %10, %10, %10};"
        : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "f"(0.0f));
}

/// The index of the lowest set bit. REQUIRES: there is one.
__device__ inline std::uint32_t lowest_bit(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits))) - 1;
}

/// How many bits are set.
__device__ inline std::uint32_t count_bits(std::uint32_t bits) {
  return static_cast<std::uint32_t>(__popc(bits));
}

/// 2^x; 0 for minus infinity.
__device__ inline float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Loads 16 or 8 bytes of a page without L1, since they are read once. Zeros unless `is_there`.
__device__ inline void load_once(const void* from, bool is_there, std::uint32_t& a,
                                 std::uint32_t& b, std::uint32_t& c, std::uint32_t& d) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %5, 0;\n"
      "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;\n"
      "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4]; }"
      : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
      : "l"(from), "r"(static_cast<std::uint32_t>(is_there)));
}
__device__ inline void load_once(const void* from, bool is_there, std::uint32_t& a,
                                 std::uint32_t& b) {
  asm volatile(
      "{ .reg .pred p; setp.ne.u32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0;\n"
      "@p ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2]; }"
      : "=r"(a), "=r"(b)
      : "l"(from), "r"(static_cast<std::uint32_t>(is_there)));
}

/// Converts two fp8 (e4m3) to f16, and two floats to fp8; too large ones saturate.
__device__ inline std::uint32_t halves_of_fp8(std::uint16_t pair) {
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  return halves;
}
__device__ inline std::uint16_t fp8_pair_of(float low, float high) {
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Transposes an 8 by 8 matrix of 16-bit numbers; lane l holds two of row l / 4. All lanes call.
__device__ inline std::uint32_t transposed(std::uint32_t pair) {
  std::uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

/// Loads four 8 by 8 matrices of 16-bit numbers from shared memory. Lane l passes the address of
/// row l % 8 of matrix l / 8, and gets two numbers of row l / 4 of each; transposed, of column l /
/// 4. All lanes call.
__device__ inline void ldmatrix(const void* row, std::uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ inline void ldmatrix_transposed(const void* row, std::uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Copies 16 bytes to shared memory asynchronously; zeros unless `is_there`.
__device__ inline void cp_async(void* to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(is_there ? 16u : 0u)
               : "memory");
}
/// Commits a group of copies, and waits until all but the newest `kNewest` groups have completed.
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <unsigned kNewest>
__device__ inline void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kNewest) : "memory");
}

/// Adds one, or wraps from `last` to zero; returns the old value.
__device__ inline std::uint32_t atomic_inc_relaxed(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(last)
               : "memory");
  return before;
}
/// The same with acquire and release: what others wrote before they counted is visible to the
/// thread that counts last, and to all that pass a barrier with it afterwards.
__device__ inline std::uint32_t atomic_inc_acq_rel(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(last)
               : "memory");
  return before;
}

}  // namespace attacca::kernels::attending
