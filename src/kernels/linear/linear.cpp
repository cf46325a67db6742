// linear.cpp: the kernels of linear.hpp and their grids. The CUDA bodies are plain: one warp for
// each row of weights, its lanes along the columns. The host bodies are in host/linear.cpp.
#include "kernels/linear/linear.hpp"

#include <algorithm>
#include <attacca/error.hpp>
#include <string>

#include "kernels/blocks.hpp"
#include "kernels/linear/host/linear.hpp"
#include "kernels/quantization.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kWarp = 32;

#if defined(__CUDACC__)
/// Rows of x that a warp multiplies at a time, so that each weight is unpacked once for all of
/// them.
constexpr unsigned kRowsTogether = 8;

/// Calls use(i, sum) in all lanes for each of `count` rows of x, where sum is row i of x times a
/// row of weights. The sum of a row does not depend on the other rows.
template <class Use>
__device__ void multiply(const Matrix& w, std::uint32_t row, const Rows& x, std::uint32_t count,
                         unsigned lane, Use use) {
  const void* weights = w.row(row);
  for (std::uint32_t first = 0; first < count; first += kRowsTogether) {
    float sum[kRowsTogether] = {};
    for (std::uint32_t column = lane; column < w.columns; column += kWarp) {
      const float weight = element(w.type, weights, column);
#pragma unroll
      for (unsigned i = 0; i < kRowsTogether; ++i)
        if (first + i < count)
          sum[i] = fmaf(weight, static_cast<const float*>(x.row(first + i))[column], sum[i]);
    }
#pragma unroll
    for (unsigned i = 0; i < kRowsTogether; ++i) {
      for (unsigned step = kWarp / 2; step != 0; step /= 2)
        sum[i] += __shfl_xor_sync(~0u, sum[i], step);
      if (first + i < count) use(first + i, sum[i]);
    }
  }
}
#endif

std::uint64_t outputs_of(const LinearArgs& a) {
  std::uint64_t outputs = 0;
  for (std::uint32_t part = 0; part < a.parts; ++part) outputs += a.w[part].rows;
  return outputs;
}

struct Linear {
  static constexpr const char* name = "linear";
  using Args = LinearArgs;

  static Cost cost(const Args& a) {
    double bytes = 1.0 * a.rows.capacity * row_stride(a.x.format, a.x.columns);
    for (std::uint32_t part = 0; part < a.parts; ++part) bytes += 1.0 * a.w[part].bytes();
    const double outputs = 1.0 * a.rows.capacity * outputs_of(a);
    bytes += (a.adds ? 2 : 1) * sizeof(float) * outputs;
    return {.flops = 2 * outputs * a.x.columns, .bytes = bytes};
  }

  static void host_block(Thread& t, const Args& a) { host::linear(a, t.block.x, t.blocks.x); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    std::uint64_t outputs = 0;
    for (std::uint32_t part = 0; part < a.parts; ++part) outputs += a.w[part].rows;
    const std::uint64_t output = t.index() / kWarp;
    if (output >= outputs) return;
    std::uint32_t part = 0;
    std::uint64_t row = output;
    while (row >= a.w[part].rows) row -= a.w[part++].rows;
    const float bias = a.bias[part] ? a.bias[part][row] : 0.0f;
    const unsigned lane = t.thread.x % kWarp;
    multiply(a.w[part], static_cast<std::uint32_t>(row), a.x, min(*a.rows.count, a.rows.capacity),
             lane, [&](std::uint32_t i, float sum) {
               if (lane != 0) return;
               float& y = a.y[i * outputs + output];
               y = a.adds ? y + (sum + bias) : sum + bias;
             });
#endif
  }
};

struct GatedLinear {
  static constexpr const char* name = "gated_linear";
  using Args = GatedLinearArgs;

  static Cost cost(const Args& a) {
    const double rows = a.rows.capacity;
    return {.flops = 4 * rows * a.gate.rows * a.gate.columns,
            .bytes = 1.0 * a.gate.bytes() + 1.0 * a.up.bytes() +
                     rows * row_stride(a.x.format, a.x.columns) +
                     rows * row_stride(a.y.format, a.y.columns)};
  }

  static void host_block(Thread& t, const Args& a) { host::gated_linear(a, t.block.x, t.blocks.x); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    const std::uint32_t row = static_cast<std::uint32_t>(t.index() / kWarp);
    if (row >= a.gate.rows) return;
    const unsigned lane = t.thread.x % kWarp;
    const std::uint32_t count = min(*a.rows.count, a.rows.capacity);
    const auto y = [&](std::uint32_t i) -> float& { return static_cast<float*>(a.y.row(i))[row]; };
    // y holds the gate until `up` is multiplied in; only lane 0 writes and reads it.
    multiply(a.gate, row, a.x, count, lane, [&](std::uint32_t i, float gate) {
      if (lane == 0) y(i) = gate / (1.0f + expf(-gate));
    });
    multiply(a.up, row, a.x, count, lane, [&](std::uint32_t i, float up) {
      if (lane == 0) y(i) *= up;
    });
#endif
  }
};

/// Least work for a thread: some microseconds.
constexpr std::uint64_t kLeastProducts = 65536;

Grid grid_for(std::uint64_t tiles, std::uint64_t outputs, std::uint64_t products, bool is_cuda) {
  if (is_cuda) return Grid::covering(outputs * kWarp, 256);
  Grid grid = host_grid(products, kLeastProducts);
  grid.blocks.x = static_cast<unsigned>(std::clamp<std::uint64_t>(tiles, 1, grid.blocks.x));
  return grid;
}

void check(const char* kernel, const Rows& rows, bool is_cuda) {
  if (is_cuda && rows.format != RowFormat::f32)
    throw BadArgument(std::string(kernel) +
                      ": rows in the format i16 are for the host; use f32 on CUDA");
}

}  // namespace

const Kernel<LinearArgs>& linear() {
  static const Kernel<LinearArgs> kernel = make_kernel<Linear>();
  return kernel;
}

const Kernel<GatedLinearArgs>& gated_linear() {
  static const Kernel<GatedLinearArgs> kernel = make_kernel<GatedLinear>();
  return kernel;
}

Grid grid_of(const LinearArgs& args, bool is_cuda) {
  check("linear", args.x, is_cuda);
  if (is_cuda && args.sections != 1)
    throw BadArgument("linear: " + std::to_string(args.sections) +
                      " sections of columns are for the host; use 1 on CUDA");
  std::uint64_t tiles = 0;
  for (std::uint32_t part = 0; part < args.parts; ++part) tiles += host::tiles_of(args.w[part]);
  const std::uint64_t outputs = outputs_of(args);
  return grid_for(tiles, outputs, outputs * args.x.columns * args.rows.capacity, is_cuda);
}

Grid grid_of(const GatedLinearArgs& args, bool is_cuda) {
  check("gated_linear", args.x, is_cuda);
  check("gated_linear", args.y, is_cuda);
  const std::uint64_t products = 2ull * args.gate.rows * args.x.columns * args.rows.capacity;
  return grid_for(host::tiles_of(args.gate), args.gate.rows, products, is_cuda);
}

std::uint32_t sections_for(const Matrix& w, int ranks, bool is_cuda) {
  constexpr std::uint32_t kMostSections = 4;
  if (is_cuda) return 1;
  const auto n = static_cast<std::uint32_t>(ranks);
  std::uint32_t sections = kMostSections;
  while (w.columns * n % (sections * block_shape(w.type).elements) != 0) sections /= 2;
  return sections % n == 0 ? sections / n : 1;
}

RowFormat row_format_for(TensorType weights, bool is_cuda) {
  return is_quantized(weights) && !is_cuda ? RowFormat::i16 : RowFormat::f32;
}

}  // namespace attacca::kernels
