// integer_tiles_avx_vnni.cpp: the path of integer_tiles.hpp for x86-64 processors with byte
// dot products of 256 bits (AVX-VNNI).
#include "kernels/linear/host/integer_tiles.hpp"

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_COMPILE_ONLY_STATIC
#include "kernels/host/simd.hpp"

#include <cpuid.h>
#include <hwy/highway.h>
#include <immintrin.h>

#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX2 ",avxvnni"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {
HWY_INLINE __m256i add_products_of_four(__m256i sum, __m256i w, __m256i x) {
  return _mm256_dpbusd_avx_epi32(sum, w, x);
}
}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "kernels/linear/host/byte_products-inl.hpp"

namespace attacca::kernels::host {
namespace {
/// __builtin_cpu_supports does not know it in every compiler.
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
}
}  // namespace

const IntegerPath* avx_vnni_path() {
  static constexpr IntegerPath kPath{"avx-vnni", &HWY_NAMESPACE::split, &HWY_NAMESPACE::multiply};
  static const bool is_here = (hwy::SupportedTargets() & HWY_AVX2) != 0 && has_avx_vnni();
  return is_here ? &kPath : nullptr;
}

}  // namespace attacca::kernels::host

#else

namespace attacca::kernels::host {
const IntegerPath* avx_vnni_path() { return nullptr; }
}  // namespace attacca::kernels::host

#endif
