// sm90_tiled_linear.cpp: instantiates the kernels of sm90_tiled_linear.hpp for 64 and 128 rows of x
// and for tall tiles, with their tensor maps and grids. The CUDA body is in sm90_tiled_linear.cuh.
// This file is compiled for sm_90a only.
#include "kernels/linear/sm90_tiled_linear.hpp"

#include <algorithm>
#include <array>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/linear/sm90_tiled_linear.cuh"
#endif

namespace attacca::kernels {
namespace {

template <unsigned kRows, unsigned kHeight, bool kInOrder>
struct TiledLinear {
  static constexpr const char* name = "tiled_linear";
  static constexpr bool waits = true;
  static constexpr bool blocks_wait = kHeight == 1;  // tall tiles are never split
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait, tiled::kPartialsWait};
  static constexpr unsigned max_threads = tiled::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = 2;
  using Args = TiledLinearArgs;

  static Cost cost(const Args& a) { return streamed_linear(a.product).cost(a.product); }

  static void host_block(Thread& t, const Args& a) { streamed_linear_on_host(t, a.product); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    tiled::Block<kRows, kHeight, kInOrder>(a).run(t);
#endif
  }
};

template <unsigned kRows, unsigned kHeight>
const Kernel<TiledLinearArgs>& kernel_of(bool in_order) {
  static const Kernel<TiledLinearArgs> ordered = make_kernel<TiledLinear<kRows, kHeight, true>>();
  static const Kernel<TiledLinearArgs> fast = make_kernel<TiledLinear<kRows, kHeight, false>>();
  return in_order ? ordered : fast;
}

/// Tall tiles are used where nearly every pair of SMs gets one and none must be split.
std::uint32_t tall_tiles(const TiledLinearArgs& args) { return (args.weight_tiles() + 1) / 2; }
bool is_tall(const TiledLinearArgs& args, unsigned processors) {
  const std::uint32_t pairs = processors / 2;
  return tiled_rows(args.product.rows.capacity) == 64 && tall_tiles(args) <= pairs &&
         5 * tall_tiles(args) >= 4 * pairs;
}

}  // namespace

bool has_tiled_linear(const Device& device) { return device.compute_capability() == 90; }

TensorMap map_weights(const Device& device, const Matrix& w) {
  const std::uint64_t row = 2ull * w.columns;
  return tensor_map(device, w.data,
                    std::array<TensorDimension, 4>{{{w.columns, 2, tiled::kStep},
                                                    {8, row, 8},
                                                    {1, 8 * row, 1},
                                                    {w.rows / 8, 8 * row, tiled::kPairRows / 16}}});
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
      std::array<TensorDimension, 4>{{{first.columns, 2, tiled::kStep},
                                      {8, row, 8},
                                      {2, apart, 2},
                                      {first.rows / 8, 8 * row, tiled::kPairRows / 32}}});
}

TensorMap map_rows(const Device& device, const void* x, std::uint32_t rows, std::uint32_t columns,
                   std::uint32_t capacity) {
  return tensor_map(
      device, x,
      std::array<TensorDimension, 2>{
          {{columns, 2, tiled::kStep}, {rows, 2ull * columns, tiled_rows(capacity) / 2}}});
}

const Kernel<TiledLinearArgs>& tiled_linear(const TiledLinearArgs& args, unsigned processors) {
  if (is_tall(args, processors)) return kernel_of<64, 2>(args.in_order);
  return tiled_rows(args.product.rows.capacity) == 64 ? kernel_of<64, 1>(args.in_order)
                                                      : kernel_of<128, 1>(args.in_order);
}

Grid tiled_grid(const TiledLinearArgs& args, unsigned processors) {
  Grid grid{Dim3{}, Dim3{tiled::kThreads}};
  if (is_tall(args, processors)) {
    grid.blocks = Dim3{2 * tall_tiles(args)};
    grid.shared_bytes = tiled::Sizes<64, 2>::kSharedBytes;
    return grid;
  }
  // One block for each SM, but no more pairs than there are stages in all tiles.
  const std::uint32_t stages =
      args.weight_tiles() * ((args.product.w.columns + tiled::kStep - 1) / tiled::kStep);
  grid.blocks = Dim3{2 * std::min(stages, processors / 2)};
  grid.shared_bytes = tiled_rows(args.product.rows.capacity) == 64
                          ? tiled::Sizes<64, 1>::kSharedBytes
                          : tiled::Sizes<128, 1>::kSharedBytes;
  return grid;
}

}  // namespace attacca::kernels
