// expand.cpp: the kernel of expand.hpp, once for each type. On CUDA a thread writes 16 elements, in
// two stores of 16 bytes. It reads halves of blocks as words of 2 bytes, because blocks are no
// multiples of 4 bytes.
#include "kernels/linear/expand.hpp"

#include "kernels/blocks.hpp"
#include "kernels/quantization.hpp"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#endif

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kEach = 16;  // elements a thread writes

#if defined(__CUDA_ARCH__)
using Bytes = const unsigned char*;

/// The 8 bytes at an even address.
__device__ inline uint2 eight_bytes(Bytes at) {
  const auto* words = reinterpret_cast<const std::uint16_t*>(at);
  return {words[0] | unsigned{words[1]} << 16, words[2] | unsigned{words[3]} << 16};
}
__device__ inline float half_of(Bytes at) {
  return float_of_half(*reinterpret_cast<const std::uint16_t*>(at));
}
__device__ inline float byte_of(const uint2& bytes, unsigned i) {
  return static_cast<float>((i < 4 ? bytes.x : bytes.y) >> i % 4 * 8 & 255);
}
__device__ inline float signed_byte_of(const uint2& bytes, unsigned i) {
  return static_cast<float>(static_cast<signed char>((i < 4 ? bytes.x : bytes.y) >> i % 4 * 8));
}
/// Stores eight numbers as bf16.
template <class Number>
__device__ void store_eight(std::uint16_t* to, const Number& number) {
  uint4 pairs;
  unsigned* pair = &pairs.x;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(number(2 * i), number(2 * i + 1));
    pair[i] = reinterpret_cast<const unsigned&>(both);
  }
  *reinterpret_cast<uint4*>(to) = pairs;
}
#endif

template <TensorType kType>
struct Expand {
  static constexpr const char* name = "expand";
  using Args = ExpandArgs;

  static Cost cost(const Args& a) {
    const double count = 1.0 * a.from.rows * a.from.columns;
    return {.flops = 2 * count, .bytes = static_cast<double>(a.from.bytes()) + 2 * count};
  }

  static void host_block(Thread& t, const Args& a) {
    const RowRange rows = rows_of_block(a.from.rows, t.block.x, t.blocks.x);
    for (std::uint64_t row = rows.first; row < rows.last; ++row)
      for (std::uint32_t i = 0; i < a.from.columns; ++i)
        a.to[row * a.from.columns + i] = bfloat_of_float(element(kType, a.from.row(row), i));
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint64_t at = t.index() * kEach;
    if (at >= std::uint64_t{a.from.rows} * a.from.columns) return;
    Bytes from = static_cast<Bytes>(a.from.data);
    from += at / 32 * block_shape(kType).bytes;
    std::uint16_t* to = a.to + at / 32 * 32;
    expand_half(from, at % 32 / kEach, to);
#endif
  }

 private:
#if defined(__CUDA_ARCH__)
  /// Half of a block: for Q8_0 the first or the second 16 elements, for others those of 8 bytes.
  __device__ static void expand_half(Bytes block, unsigned half, std::uint16_t* to) {
    const float scale = half_of(block);
    if constexpr (kType == TensorType::q8_0) {
#pragma unroll
      for (unsigned part = 0; part < 2; ++part) {
        const unsigned first = half * 16 + part * 8;
        const uint2 bytes = eight_bytes(block + 2 + first);
        store_eight(to + first, [&](unsigned i) { return scale * signed_byte_of(bytes, i); });
      }
    } else {
      constexpr bool kHasLeast = kType == TensorType::q4_1;
      const float least = kHasLeast ? half_of(block + 2) : -8 * scale;
      const uint2 bytes = eight_bytes(block + (kHasLeast ? 4 : 2) + half * 8);
      const uint2 low{bytes.x & 0x0f0f0f0fu, bytes.y & 0x0f0f0f0fu};
      const uint2 high{bytes.x >> 4 & 0x0f0f0f0fu, bytes.y >> 4 & 0x0f0f0f0fu};
      store_eight(to + half * 8, [&](unsigned i) { return scale * byte_of(low, i) + least; });
      store_eight(to + 16 + half * 8, [&](unsigned i) { return scale * byte_of(high, i) + least; });
    }
  }
#endif
};

template <TensorType kType>
const Kernel<ExpandArgs>& kernel_of() {
  static const Kernel<ExpandArgs> kernel = make_kernel<Expand<kType>>();
  return kernel;
}

}  // namespace

bool can_expand(const Matrix& w) {
  return (w.type == TensorType::q8_0 || w.type == TensorType::q4_0 || w.type == TensorType::q4_1) &&
         w.columns % 32 == 0;
}

const Kernel<ExpandArgs>& expand(const ExpandArgs& args) {
  switch (args.from.type) {
    case TensorType::q4_0:
      return kernel_of<TensorType::q4_0>();
    case TensorType::q4_1:
      return kernel_of<TensorType::q4_1>();
    default:
      return kernel_of<TensorType::q8_0>();
  }
}

Grid grid_of(const ExpandArgs& args, bool is_cuda) {
  const std::uint64_t count = 1ull * args.from.rows * args.from.columns;
  if (is_cuda) return Grid::covering(count / kEach, kThreads);
  return host_grid(count, 16384);
}

}  // namespace attacca::kernels
