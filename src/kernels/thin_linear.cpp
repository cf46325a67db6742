// thin_linear.cpp: the kernels of thin_linear.hpp, for up to 8 and up to 16 rows of x at a time;
// the CUDA body is in cuda/thin_linear.cuh.
#include "kernels/thin_linear.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/quantization.hpp"

#if defined(__CUDACC__)
#include "kernels/cuda/thin_linear.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr std::uint32_t kTileRows = 16;
// As in cuda/thin_linear.cuh.
constexpr unsigned kThreads = 320;
constexpr unsigned kSharedBytes = 6 * 8 * (2 * 1024 + 64);

std::uint32_t tiles_of(const ThinLinearArgs& a) {
  return a.w.rows / (a.end == ThinEnd::gate ? kTileRows / 2 : kTileRows);
}

/// Row `output` of the weights times a row of x, in doubles.
double product(const Matrix& w, std::uint32_t output, const std::uint16_t* x) {
  const auto* weights = static_cast<const std::uint16_t*>(w.row(output));
  double sum = 0;
  for (std::uint32_t i = 0; i < w.columns; ++i)
    sum += static_cast<double>(float_of_bfloat(weights[i])) * float_of_bfloat(x[i]);
  return sum;
}

double norm_factor(const ThinLinearArgs& a, std::uint64_t row) {
  if (!a.squares) return 1;
  const std::uint32_t parts = a.w.columns / Residual::kPart;
  double sum = 0;
  for (std::uint32_t i = 0; i < parts; ++i) sum += a.squares[row * parts + i];
  return 1 / std::sqrt(sum / a.w.columns + a.epsilon);
}

/// The outputs of one tile for one row of x.
void host_tile(const ThinLinearArgs& a, std::uint32_t tile, std::uint32_t row) {
  const std::uint64_t from = a.gather ? static_cast<std::uint64_t>(a.gather[row]) : row;
  const std::uint16_t* x = a.x + from * a.w.columns;
  const double factor = norm_factor(a, from);
  const std::uint64_t outputs = a.w.rows;
  if (a.end == ThinEnd::gate) {
    for (std::uint32_t i = tile * 8; i < tile * 8 + 8; ++i) {
      const double gate = product(a.w, i, x) * factor;
      const double up = product(a.up, i, x) * factor;
      a.gated[row * outputs + i] =
          bfloat_of_float(static_cast<float>(gate / (1 + std::exp(-gate)) * up));
    }
    return;
  }
  float squares = 0;
  for (std::uint32_t i = tile * kTileRows; i < (tile + 1) * kTileRows; ++i) {
    const auto sum = static_cast<float>(product(a.w, i, x) * factor);
    const std::uint64_t at = row * outputs + i;
    if (a.end == ThinEnd::store) {
      a.y[at] = sum + (a.bias ? a.bias[i] : 0.0f);
    } else {
      const float value = a.residual.values[at] += sum;
      a.residual.scaled[at] = bfloat_of_float(value * a.next_norm[i]);
      squares += value * value;
    }
  }
  if (a.end == ThinEnd::add) a.residual.squares[row * a.residual.parts() + tile] = squares;
}

template <unsigned kRows8>
struct ThinLinear {
  static constexpr const char* name = "thin_linear";
  static constexpr bool waits = true;
  static constexpr unsigned max_threads = kThreads;
  static constexpr unsigned min_blocks = 2;  // this kernel's and the next one's, on one SM
  using Args = ThinLinearArgs;

  static Cost cost(const Args& a) {
    const double rows = a.rows.capacity;
    const double matrices = a.end == ThinEnd::gate ? 2 : 1;
    const double written = a.end == ThinEnd::store ? 4 : a.end == ThinEnd::add ? 10 : 2;
    return {.flops = 2 * matrices * rows * a.w.rows * a.w.columns,
            .bytes = matrices * static_cast<double>(a.w.bytes()) + 2 * rows * a.w.columns +
                     written * rows * a.w.rows};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    const std::uint32_t count = std::min(*a.rows.count, a.rows.capacity);
    for (std::uint32_t tile = t.block.x; tile < tiles_of(a); tile += t.blocks.x)
      for (std::uint32_t row = 0; row < count; ++row) host_tile(a, tile, row);
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    thin::Block<kRows8>(a).run(t);
#endif
  }
};

template <unsigned kRows8>
const Kernel<ThinLinearArgs>& kernel_of() {
  static const Kernel<ThinLinearArgs> kernel = make_kernel<ThinLinear<kRows8>>();
  return kernel;
}

}  // namespace

bool is_thin(const Matrix& w) {
  return w.type == TensorType::bf16 && w.rows % kTileRows == 0 && w.columns % 32 == 0;
}

const Kernel<ThinLinearArgs>& thin_linear(const ThinLinearArgs& args) {
  return args.rows.capacity > 8 ? kernel_of<2>() : kernel_of<1>();
}

Grid thin_grid(const ThinLinearArgs& args, unsigned processors) {
  Grid grid{Dim3{std::min(tiles_of(args), processors)}, Dim3{kThreads}};
  grid.shared_bytes = kSharedBytes;
  return grid;
}

}  // namespace attacca::kernels
