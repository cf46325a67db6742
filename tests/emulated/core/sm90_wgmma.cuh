// sm90_wgmma.cuh: stands in for the file of this name in src/. Products are computed when a thread
// waits for them, from what operands and shared memory hold then.
#pragma once

#include "core/sm90_descriptor.cuh"
#include "kernels/attention/attention_ptx.cuh"

namespace attacca::sm90 {

namespace emulated {

namespace threads = attacca::test::emulated;

/// A matrix with rows of 128 swizzled bytes. Element (i, j): `i` counts what is multiplied and
/// added up, `j` the results.
template <bool kIsBfloat>
class Matrix {
 public:
  Matrix(std::uint64_t descriptor, bool is_by_column)
      : address_((descriptor & 0x3fff) << 4),
        leading_((descriptor >> 16 & 0x3fff) << 4),
        stride_((descriptor >> 32 & 0x3fff) << 4),
        is_by_column_(is_by_column) {
    if (descriptor >> 62 != 1) std::abort();  // another swizzle
  }
  double at(unsigned i, unsigned j) const {
    const std::uint64_t linear =
        is_by_column_ ? address_ + j / 64 * leading_ + i / 8 * stride_ + i % 8 * 128 + j % 64 * 2
                      : address_ + j / 8 * stride_ + j % 8 * 128 + i * 2;
    const std::uint64_t swizzled = linear ^ (linear >> 7 & 7) << 4;
    std::uint16_t bits;
    std::memcpy(&bits, static_cast<const char*>(threads::Block::now().shared_memory) + swizzled, 2);
    return kernels::attending::floats_of<kIsBfloat>(bits).x;
  }

 private:
  std::uint64_t address_, leading_, stride_;
  bool is_by_column_;
};

/// c += a b; a(row, i) for the thread's rows lane / 4 (0) and lane / 4 + 8 (1).
template <bool kIsBfloat, unsigned kCount, class A>
void add_products(float (&c)[kCount], bool adds, const A& a, const Matrix<kIsBfloat>& b) {
  const unsigned lane = threadIdx.x % 32;
  for (unsigned pair = 0; pair < kCount / 4; ++pair)
    for (unsigned column = 0; column < 2; ++column) {
      double sums[2] = {};
      for (unsigned i = 0; i < 16; ++i) {
        const double right = b.at(i, pair * 8 + lane % 4 * 2 + column);
        for (unsigned half = 0; half < 2; ++half) sums[half] += a(half, i) * right;
      }
      for (unsigned half = 0; half < 2; ++half) {
        float& to = c[pair * 4 + half * 2 + column];
        to = static_cast<float>(sums[half] + (adds ? to : 0));
      }
    }
}

}  // namespace emulated

inline void wgmma_fence() {}
inline void wgmma_commit() { emulated::threads::Later::products().commit(); }
template <unsigned kNewest>
void wgmma_wait() {
  emulated::threads::Later::products().wait(kNewest);
}
template <class T, unsigned kCount>
void fence_operands(T (&)[kCount]) {}

template <bool kIsBfloat, bool kAdds>
void multiply_rows(float (&c)[64], std::uint64_t a, std::uint64_t b) {
  emulated::threads::Later::products().add([&c, a, b] {
    const emulated::Matrix<kIsBfloat> left(a, false);
    const unsigned row = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    double known[2][16];
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned i = 0; i < 16; ++i) known[half][i] = left.at(i, row + 8 * half);
    emulated::add_products<kIsBfloat>(
        c, kAdds, [&](unsigned half, unsigned i) { return known[half][i]; },
        emulated::Matrix<kIsBfloat>(b, false));
  });
}
template <bool kIsBfloat, bool kAdds = true, unsigned kCount>
void multiply_columns(float (&c)[kCount], const std::uint32_t* a, std::uint64_t b) {
  emulated::threads::Later::products().add([&c, a, b] {
    const auto words = emulated::threads::Block::now().meet(
        {a[0] | std::uint64_t{a[1]} << 32, a[2] | std::uint64_t{a[3]} << 32});
    const unsigned lane = threadIdx.x % 32;
    double known[2][16];
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned i = 0; i < 16; ++i) {
        const std::uint64_t two = words[lane / 4 * 4 + i % 8 / 2][i / 8];
        const float2 pair =
            kernels::attending::floats_of<kIsBfloat>(static_cast<std::uint32_t>(two >> 32 * half));
        known[half][i] = i % 2 == 0 ? pair.x : pair.y;
      }
    emulated::add_products<kIsBfloat>(
        c, kAdds, [&](unsigned half, unsigned i) { return known[half][i]; },
        emulated::Matrix<kIsBfloat>(b, true));
  });
}

}  // namespace attacca::sm90
