// to_fp8.cpp: the kernel of to_fp8.hpp. On CUDA one warp converts one row.
#include "kernels/to_fp8.hpp"

#include <cmath>

#include "kernels/blocks.hpp"
#include "kernels/quantization.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kThreads = 256;
constexpr float kLargest = 448;

struct ToFp8 {
  static constexpr const char* name = "to_fp8";
  using Args = ToFp8Args;

  static Cost cost(const Args& a) {
    const double count = 1.0 * a.from.rows * a.from.columns;
    return {.flops = 2 * count, .bytes = 2.0 * a.from.bytes() + count + 4.0 * a.from.rows};
  }

  static void host_block(Thread& t, const Args& a) {
    const RowRange rows = rows_of_block(a.from.rows, t.block.x, t.blocks.x);
    for (std::uint32_t row = rows.first; row < rows.last; ++row) {
      a.scales[row] = largest(a, row, 0, 1) / kLargest;
      write(a, row, 0, 1);
    }
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint64_t row = t.index() / kWarp;
    if (row >= a.from.rows) return;
    const unsigned lane = t.thread.x % kWarp;
    float size = largest(a, row, lane, kWarp);
    for (unsigned step = kWarp / 2; step != 0; step /= 2)
      size = fmaxf(size, __shfl_xor_sync(~0u, size, step));
    if (lane == 0) a.scales[row] = size / kLargest;
    __syncwarp();
    write(a, row, lane, kWarp);
#endif
  }

 private:
  /// Converts every `step`-th element of a row from `first` on.
  ATTACCA_HD static float largest(const Args& a, std::uint64_t row, std::uint32_t first,
                                  std::uint32_t step) {
    const void* from = a.from.row(row);
    float size = 0;
    for (std::uint32_t i = first; i < a.from.columns; i += step)
      size = fmaxf(size, fabsf(element(a.from.type, from, i)));
    return size;
  }
  ATTACCA_HD static void write(const Args& a, std::uint64_t row, std::uint32_t first,
                               std::uint32_t step) {
    const void* from = a.from.row(row);
    const float scale = a.scales[row];
    for (std::uint32_t i = first; i < a.from.columns; i += step)
      a.to[row * a.from.columns + i] =
          e4m3_of_float(scale == 0 ? 0.0f : element(a.from.type, from, i) / scale);
  }
};

}  // namespace

const Kernel<ToFp8Args>& to_fp8() {
  static const Kernel<ToFp8Args> kernel = make_kernel<ToFp8>();
  return kernel;
}

Grid grid_of(const ToFp8Args& args, bool is_cuda) {
  if (is_cuda) return Grid::covering(1ull * args.from.rows * kWarp, kThreads);
  return host_grid(1ull * args.from.rows * args.from.columns, 16384);
}

}  // namespace attacca::kernels
