// integer_tiles_vnni.cpp: the path of integer_tiles.hpp for x86-64 processors with byte dot
// products of 512 bits (AVX-512 VNNI).
#include "kernels/linear/host/integer_tiles.hpp"

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_AVX3
#define HWY_COMPILE_ONLY_STATIC
#include "kernels/host/simd.hpp"

#include <hwy/highway.h>
#include <immintrin.h>

#undef HWY_TARGET_STR
#define HWY_TARGET_STR HWY_TARGET_STR_AVX3 ",avx512vnni"

HWY_BEFORE_NAMESPACE();
namespace attacca::kernels::host::HWY_NAMESPACE {
namespace {
HWY_INLINE __m512i add_products_of_four(__m512i sum, __m512i w, __m512i x) {
  return _mm512_dpbusd_epi32(sum, w, x);
}
}  // namespace
}  // namespace attacca::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "kernels/linear/host/byte_products-inl.hpp"

namespace attacca::kernels::host {

const IntegerPath* vnni_path() {
  static constexpr IntegerPath kPath{"vnni", &HWY_NAMESPACE::split, &HWY_NAMESPACE::multiply};
  static const bool is_here =
      (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni");
  return is_here ? &kPath : nullptr;
}

}  // namespace attacca::kernels::host

#else

namespace attacca::kernels::host {
const IntegerPath* vnni_path() { return nullptr; }
}  // namespace attacca::kernels::host

#endif
