// wide_linear.cpp: the kernels of wide_linear.hpp, for 64 and for 128 rows of x at a time; the CUDA
// body is in cuda/wide_linear.cuh. This file is compiled for one kind of GPU alone.
#include "kernels/wide_linear.hpp"

#include <algorithm>
#include <array>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/cuda/wide_linear.cuh"
#endif

namespace attacca::kernels {
namespace {

template <unsigned kRows, unsigned kHeight>
struct WideLinear {
  static constexpr const char* name = "wide_linear";
  static constexpr bool waits = true;
  static constexpr bool blocks_wait = kHeight == 1;  // tall tiles are not shared
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait, wide::kSharesWait};
  static constexpr unsigned max_threads = wide::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = 2;
  using Args = WideLinearArgs;

  static Cost cost(const Args& a) { return thin_linear(a.product).cost(a.product); }

  static void host_block(Thread& t, const Args& a) { thin_linear_on_host(t, a.product); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    wide::Block<kRows, kHeight>(a).run(t);
#endif
  }
};

template <unsigned kRows, unsigned kHeight>
const Kernel<WideLinearArgs>& kernel_of() {
  static const Kernel<WideLinearArgs> kernel = make_kernel<WideLinear<kRows, kHeight>>();
  return kernel;
}

/// Tall tiles are for where nearly all pairs of SMs have one each, and none must be shared.
std::uint32_t tall_tiles(const WideLinearArgs& args) { return (args.weight_tiles() + 1) / 2; }
bool is_tall(const WideLinearArgs& args, unsigned processors) {
  const std::uint32_t pairs = processors / 2;
  return wide_rows(args.product.rows.capacity) == 64 && tall_tiles(args) <= pairs &&
         5 * tall_tiles(args) >= 4 * pairs;
}

}  // namespace

bool has_wide_linear(const Device& device) { return device.compute_capability() == 90; }

TensorMap map_weights(const Device& device, const Matrix& w) {
  const std::uint64_t row = 2ull * w.columns;
  return tensor_map(device, w.data,
                    std::array<TensorDimension, 4>{{{w.columns, 2, wide::kStep},
                                                    {8, row, 8},
                                                    {1, 8 * row, 1},
                                                    {w.rows / 8, 8 * row, wide::kPairRows / 16}}});
}

TensorMap map_weights(const Device& device, const Matrix& gate, const Matrix& up) {
  const bool is_second = gate_is_second(gate, up);
  const Matrix& first = is_second ? up : gate;
  const Matrix& second = is_second ? gate : up;
  const std::uint64_t row = 2ull * first.columns;
  const auto apart = static_cast<std::uint64_t>(static_cast<const std::byte*>(second.data) -
                                                static_cast<const std::byte*>(first.data));
  return tensor_map(
      device, first.data,
      std::array<TensorDimension, 4>{{{first.columns, 2, wide::kStep},
                                      {8, row, 8},
                                      {2, apart, 2},
                                      {first.rows / 8, 8 * row, wide::kPairRows / 32}}});
}

TensorMap map_rows(const Device& device, const void* x, std::uint32_t rows, std::uint32_t columns,
                   std::uint32_t capacity) {
  return tensor_map(
      device, x,
      std::array<TensorDimension, 2>{
          {{columns, 2, wide::kStep}, {rows, 2ull * columns, wide_rows(capacity) / 2}}});
}

const Kernel<WideLinearArgs>& wide_linear(const WideLinearArgs& args, unsigned processors) {
  if (is_tall(args, processors)) return kernel_of<64, 2>();
  return wide_rows(args.product.rows.capacity) == 64 ? kernel_of<64, 1>() : kernel_of<128, 1>();
}

Grid wide_grid(const WideLinearArgs& args, unsigned processors) {
  Grid grid{Dim3{}, Dim3{wide::kThreads}};
  if (is_tall(args, processors)) {
    grid.blocks = Dim3{2 * tall_tiles(args)};
    grid.shared_bytes = wide::Sizes<64, 2>::kSharedBytes;
    return grid;
  }
  // A block for each processor, and no more than there are stages of tiles.
  const std::uint32_t stages =
      args.weight_tiles() * ((args.product.w.columns + wide::kStep - 1) / wide::kStep);
  grid.blocks = Dim3{2 * std::min(stages, processors / 2)};
  grid.shared_bytes = wide_rows(args.product.rows.capacity) == 64
                          ? wide::Sizes<64, 1>::kSharedBytes
                          : wide::Sizes<128, 1>::kSharedBytes;
  return grid;
}

}  // namespace attacca::kernels
