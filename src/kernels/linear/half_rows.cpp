// half_rows.cpp: the kernel of half_rows.hpp, one block for each row. It holds 16,384 columns in
// registers, reads more of them twice, and writes in place.
#include "kernels/linear/half_rows.hpp"

#include <algorithm>
#include <bit>

#include "kernels/blocks.hpp"
#include "kernels/quantization.hpp"
#include "kernels/residual.hpp"

#if defined(__CUDACC__)
#include "kernels/linear/streamed_multiply.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / 32;
constexpr unsigned kHeld = 8;  // times eight columns that a thread holds

/// The power of two for a row whose largest magnitude has these bits of bf16, as an exponent. It is
/// bounded, so that its square and the squares of a norm times it are numbers too.
ATTACCA_HD inline int exponent_for(unsigned largest) {
  constexpr int kLeast = -40, kMost = 40;
  const int wanted = 14 + 127 - static_cast<int>(largest >> 7);
  return wanted < kLeast ? kLeast : wanted > kMost ? kMost : wanted;
}
ATTACCA_HD inline float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 + exponent) << 23);
}
/// What the first of the scaled squares is; the others are 0.
ATTACCA_HD inline float scaled_square(const HalfRowsArgs& a, float squares, int exponent) {
  const auto columns = static_cast<float>(a.columns);
  return (a.squares ? squares + a.epsilon * columns : columns) * power_of_two(2 * exponent);
}

struct HalfRows {
  static constexpr const char* name = "half_rows";
  static constexpr bool waits = true;
  using Args = HalfRowsArgs;

  static Cost cost(const Args& a) {
    const double count = 1.0 * a.rows.capacity * a.columns;
    return {.flops = count, .bytes = 4 * count + 8 * count / Residual::kPart};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    const RowRange rows =
        rows_of_block(std::min(*a.rows.count, a.rows.capacity), t.block.x, t.blocks.x);
    const std::uint32_t parts = a.columns / Residual::kPart;
    for (std::uint64_t row = rows.first; row < rows.last; ++row) {
      std::uint16_t* x = a.x + row * a.columns;
      unsigned largest = 0;
      for (std::uint32_t i = 0; i < a.columns; ++i) largest = std::max(largest, x[i] & 0x7fffu);
      const int exponent = exponent_for(largest);
      for (std::uint32_t i = 0; i < a.columns; ++i)
        x[i] = half_of_float(float_of_bfloat(x[i]) * power_of_two(exponent));
      float sum = 0;
      for (std::uint32_t i = 0; i < parts && a.squares; ++i) sum += a.squares[row * parts + i];
      float* to = a.scaled_squares + row * parts;
      std::fill_n(to, parts, 0.0f);
      to[0] = scaled_square(a, sum, exponent);
    }
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    t.wait_for_producers();
    t.release_consumers();
    const std::uint64_t row = blockIdx.x;
    if (row >= *a.rows.count) return;
    auto* x = reinterpret_cast<uint4*>(a.x + row * a.columns);
    const std::uint32_t parts = a.columns / Residual::kPart;
    float* squares = a.scaled_squares + row * parts;
    const std::uint32_t eights = a.columns / 8;
    uint4 held[kHeld];
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      const std::uint32_t at = threadIdx.x + i * kThreads;
      held[i] = at < eights ? x[at] : uint4{};
    }
    float sum = 0;
    if (a.squares)
      for (std::uint32_t i = threadIdx.x; i < parts; i += kThreads)
        sum += a.squares[row * parts + i];
    unsigned largest = 0;
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) largest = with_magnitudes(largest, held[i]);
    for (std::uint32_t at = threadIdx.x + kHeld * kThreads; at < eights; at += kThreads)
      largest = with_magnitudes(largest, x[at]);
    const Found found = of_block(max(largest & 0xffffu, largest >> 16), sum);
    const int exponent = exponent_for(found.largest);
    const float scale = power_of_two(exponent);
#pragma unroll
    for (unsigned i = 0; i < kHeld; ++i) {
      const std::uint32_t at = threadIdx.x + i * kThreads;
      if (at < eights) x[at] = streamed::halves(held[i], scale);
    }
    for (std::uint32_t at = threadIdx.x + kHeld * kThreads; at < eights; at += kThreads)
      x[at] = streamed::halves(x[at], scale);
    for (std::uint32_t i = threadIdx.x; i < parts; i += kThreads)
      squares[i] = i == 0 ? scaled_square(a, found.sum, exponent) : 0.0f;
#endif
  }

 private:
#if defined(__CUDA_ARCH__)
  __device__ static unsigned magnitudes(unsigned pair) { return pair & 0x7fff7fffu; }
  __device__ static unsigned with_magnitudes(unsigned largest, const uint4& x) {
    return __vmaxu2(__vmaxu2(largest, __vmaxu2(magnitudes(x.x), magnitudes(x.y))),
                    __vmaxu2(magnitudes(x.z), magnitudes(x.w)));
  }
  /// The largest and the sum of all threads' numbers. No thread returns before all have called.
  struct Found {
    unsigned largest;
    float sum;
  };
  __device__ static Found of_block(unsigned largest, float sum) {
    __shared__ Found of_warp[kWarps];
    largest = __reduce_max_sync(~0u, largest);
#pragma unroll
    for (unsigned step = 16; step != 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = {largest, sum};
    __syncthreads();
    Found all = of_warp[0];
#pragma unroll
    for (unsigned i = 1; i < kWarps; ++i)
      all = {max(all.largest, of_warp[i].largest), all.sum + of_warp[i].sum};
    return all;
  }
#endif
};

}  // namespace

const Kernel<HalfRowsArgs>& half_rows() {
  static const Kernel<HalfRowsArgs> kernel = make_kernel<HalfRows>();
  return kernel;
}

Grid grid_of(const HalfRowsArgs& args, bool is_cuda) {
  if (!is_cuda) return host_grid(1ull * args.rows.capacity * args.columns, 1 << 14);
  return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
}

}  // namespace attacca::kernels
