// streamed_linear.cpp: instantiates the kernels of streamed_linear.hpp for each type of weights and
// for 8 or 16 rows of x at a time, with their grids and the host reference. The CUDA body is in
// streamed_linear.cuh.
#include "kernels/linear/streamed_linear.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/quantization.hpp"
#include "kernels/waits.hpp"

#if defined(__CUDACC__)
#include "kernels/linear/streamed_linear.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr std::uint32_t kTileRows = 16;
// These repeat streamed_linear.cuh, which only nvcc can read.
constexpr unsigned kThreads = 320;
constexpr unsigned kSharedBytes = 6 * 8 * (2 * 1024 + 128);
#if defined(__CUDACC__)
static_assert(kThreads == 32 * (streamed::kConsumerWarps + streamed::kProducerWarps));
static_assert(kSharedBytes == streamed::kSharedBytes);
#endif

// Two blocks with the extra shared memory do not fit on one SM, but one with and one without do. An
// SM of compute capability 9.0 has 228 KB; a block takes 1 KB and its static shared memory besides
// the dynamic one.
constexpr unsigned kExtraSharedBytes = 3584;
constexpr unsigned kSmSharedBytes = 228 << 10;
constexpr unsigned kBlockSharedBytes = kSharedBytes + 1024;
constexpr unsigned kMinStaticBytes = 8 << 10;
constexpr unsigned kMaxStaticBytes = 9 << 10;
static_assert(2 * (kBlockSharedBytes + kExtraSharedBytes + kMinStaticBytes) > kSmSharedBytes);
static_assert(2 * kBlockSharedBytes + kExtraSharedBytes + 2 * kMaxStaticBytes <= kSmSharedBytes);

std::uint32_t tiles_of(const StreamedLinearArgs& a) {
  return a.w.rows / (a.epilogue == Epilogue::gate ? kTileRows / 2 : kTileRows);
}

/// Row `output` of the weights times row `from` of x, accumulated in double precision.
double product(const StreamedLinearArgs& a, const Matrix& w, std::uint32_t output,
               std::uint64_t from) {
  const std::uint16_t* x = a.x + from * w.columns;
  const std::uint16_t* rest =
      a.x_rest && is_quantized(w.type) ? a.x_rest + from * w.columns : nullptr;
  const void* weights = w.row(output);
  double sum = 0;
  for (std::uint32_t i = 0; i < w.columns; ++i) {
    const double value = float_of_bfloat(x[i]) + (rest ? float_of_bfloat(rest[i]) : 0.0);
    sum += element(w.type, weights, i) * value;
  }
  return sum * w.scale(output);
}

/// Stores a number as bf16, and its rounding error where `rest` is wanted.
void put(std::uint16_t* to, std::uint16_t* rest, std::uint64_t at, float value) {
  to[at] = bfloat_of_float(value);
  if (rest) rest[at] = bfloat_of_float(value - float_of_bfloat(to[at]));
}

double norm_factor(const StreamedLinearArgs& a, std::uint64_t row) {
  if (!a.squares) return 1;
  const std::uint32_t parts = a.w.columns / Residual::kPart;
  double sum = 0;
  for (std::uint32_t i = 0; i < parts; ++i) sum += a.squares[row * parts + i];
  return 1 / std::sqrt(sum / a.w.columns + a.epsilon);
}

/// The outputs of one tile for one row of x.
void host_tile(const StreamedLinearArgs& a, std::uint32_t tile, std::uint32_t row) {
  const std::uint64_t from = a.gather ? static_cast<std::uint64_t>(a.gather[row]) : row;
  const double factor = norm_factor(a, from);
  const std::uint64_t outputs = a.w.rows;
  if (a.epilogue == Epilogue::gate) {
    for (std::uint32_t i = tile * 8; i < tile * 8 + 8; ++i) {
      const double gate = product(a, a.w, i, from) * factor;
      const double up = product(a, a.up, i, from) * factor;
      put(a.gated, a.gated_rest, row * outputs + i,
          static_cast<float>(gate / (1 + std::exp(-gate)) * up));
    }
    return;
  }
  float squares = 0;
  for (std::uint32_t i = tile * kTileRows; i < (tile + 1) * kTileRows; ++i) {
    const auto sum = static_cast<float>(product(a, a.w, i, from) * factor);
    const std::uint64_t at = row * outputs + i;
    if (a.epilogue == Epilogue::store) {
      a.y[at] = sum + (a.bias ? a.bias[i] : 0.0f);
    } else {
      const float value = a.residual.values[at] += sum;
      put(a.residual.scaled, a.residual.rest, at, value * a.next_norm[i]);
      squares += value * value;
    }
  }
  if (a.epilogue == Epilogue::add) a.residual.squares[row * a.residual.parts() + tile] = squares;
}

template <TensorType kType, unsigned kRows8, bool kInOrder>
struct StreamedLinear {
  static constexpr const char* name = "streamed_linear";
  static constexpr bool waits = true;
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait};
  static constexpr unsigned max_threads = kThreads;
  static constexpr unsigned min_blocks = 2;  // one of this kernel and one of the next
  using Args = StreamedLinearArgs;

  static Cost cost(const Args& a) {
    const double rows = a.rows.capacity;
    const double matrices = a.epilogue == Epilogue::gate ? 2 : 1;
    const double written = a.epilogue == Epilogue::store ? 4 : a.epilogue == Epilogue::add ? 10 : 2;
    return {.flops = 2 * matrices * rows * a.w.rows * a.w.columns,
            .bytes = matrices * static_cast<double>(a.w.bytes()) +
                     (is_quantized(kType) ? 4 : 2) * rows * a.w.columns + written * rows * a.w.rows,
            .arithmetic = Arithmetic::bf16};
  }

  static void host_block(Thread& t, const Args& a) { streamed_linear_on_host(t, a); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    streamed::Block<streamed::WeightsOf<kType, kInOrder>, kRows8>(a).run(t);
#endif
  }
};

template <TensorType kType, unsigned kRows8, bool kInOrder = false>
const Kernel<StreamedLinearArgs>& kernel_of() {
  static const Kernel<StreamedLinearArgs> kernel =
      make_kernel<StreamedLinear<kType, kRows8, kInOrder>>();
  return kernel;
}

}  // namespace

void streamed_linear_on_host(Thread& t, const StreamedLinearArgs& a) {
  t.wait_for_producers();
  const std::uint32_t count = std::min(*a.rows.count, a.rows.capacity);
  for (std::uint32_t tile = t.block.x; tile < tiles_of(a); tile += t.blocks.x)
    for (std::uint32_t row = 0; row < count; ++row) host_tile(a, tile, row);
}

bool can_stream_weights(const Matrix& w) {
  constexpr TensorType kTypes[] = {TensorType::bf16, TensorType::f16,  TensorType::e4m3,
                                   TensorType::q8_0, TensorType::q4_0, TensorType::q4_1};
  return std::find(std::begin(kTypes), std::end(kTypes), w.type) != std::end(kTypes) &&
         w.rows % kTileRows == 0 && w.columns % 32 == 0;
}

const Kernel<StreamedLinearArgs>& streamed_linear(const StreamedLinearArgs& args) {
  const bool is_few = args.rows.capacity <= 8;
  switch (args.w.type) {
    case TensorType::e4m3:
      return is_few ? kernel_of<TensorType::e4m3, 1>() : kernel_of<TensorType::e4m3, 2>();
    case TensorType::f16:
      return kernel_of<TensorType::f16, 1>();
    case TensorType::q8_0:
      return kernel_of<TensorType::q8_0, 1>();
    case TensorType::q4_0:
      return kernel_of<TensorType::q4_0, 1>();
    case TensorType::q4_1:
      return kernel_of<TensorType::q4_1, 1>();
    default:
      if (args.in_order)
        return is_few ? kernel_of<TensorType::bf16, 1, true>()
                      : kernel_of<TensorType::bf16, 2, true>();
      return is_few ? kernel_of<TensorType::bf16, 1>() : kernel_of<TensorType::bf16, 2>();
  }
}

Grid streamed_grid(const StreamedLinearArgs& args, unsigned processors, CoResident co_resident) {
  const bool asks_for_more = co_resident == CoResident::none || args.epilogue != Epilogue::add;
  Grid grid{Dim3{processors}, Dim3{kThreads}};
  grid.shared_bytes = kSharedBytes + (asks_for_more ? kExtraSharedBytes : 0);
  return grid;
}

}  // namespace attacca::kernels
