// sm90_tiled_linear.cpp: instantiates the kernels of sm90_tiled_linear.hpp for 64, 128 and 256 rows
// of x and for tall tiles, with their tensor maps and grids. The CUDA body is in
// sm90_tiled_linear.cuh. This file is compiled for sm_90a only.
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

const Kernel<TiledLinearArgs>& kernel_of_256() {
  static const Kernel<TiledLinearArgs> made = make_kernel<TiledLinear<256, 1, false>>();
  return made;
}

constexpr std::uint32_t divided_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

/// How long a product takes with such tiles, in tenths of a stage of 128 rows, as TileScheduler
/// divides it. With these figures the faster of both was chosen for each matrix of Llama 1B and 8B
/// and 128 to 2048 rows on an H200 (docs/trials.md).
template <unsigned kRows>
std::uint64_t price_of(const TiledLinearArgs& args, unsigned processors) {
  constexpr std::uint64_t kStagePrice = kRows == 256 ? 18 : 10;
  constexpr std::uint64_t kSplitPrice = kRows == 256 ? 190 : 100;
  const std::uint32_t pairs = processors / 2;
  const std::uint32_t stages = divided_up(args.product.w.columns, tiled::kStep);
  const std::uint32_t tiles = args.weight_tiles() * divided_up(args.product.rows.capacity, kRows);
  const std::uint32_t each = std::min(pairs / tiles, stages);
  if (each > 1) return divided_up(stages, each) * kStagePrice + kSplitPrice;
  return std::uint64_t{divided_up(tiles, pairs)} * stages * kStagePrice;
}

/// Tall tiles are used where nearly every pair of SMs gets one and none must be split.
std::uint32_t tall_tiles(const TiledLinearArgs& args) { return (args.weight_tiles() + 1) / 2; }
bool is_tall(const TiledLinearArgs& args, unsigned processors) {
  const std::uint32_t pairs = processors / 2;
  return args.tile_rows == 64 && tall_tiles(args) <= pairs && 5 * tall_tiles(args) >= 4 * pairs;
}

}  // namespace

std::uint32_t tiled_rows(const StreamedLinearArgs& product, bool in_order, unsigned processors) {
  if (product.rows.capacity <= 64) return 64;
  if (in_order) return 128;
  TiledLinearArgs args{};
  args.product = product;
  return price_of<256>(args, processors) < price_of<128>(args, processors) ? 256 : 128;
}

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
                   std::uint32_t tile_rows) {
  return tensor_map(device, x,
                    std::array<TensorDimension, 2>{
                        {{columns, 2, tiled::kStep}, {rows, 2ull * columns, tile_rows / 2}}});
}

const Kernel<TiledLinearArgs>& tiled_linear(const TiledLinearArgs& args, unsigned processors) {
  if (is_tall(args, processors)) return kernel_of<64, 2>(args.in_order);
  switch (args.tile_rows) {
    case 64:
      return kernel_of<64, 1>(args.in_order);
    case 128:
      return kernel_of<128, 1>(args.in_order);
    default:
      return kernel_of_256();
  }
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
      args.weight_tiles() * divided_up(args.product.w.columns, tiled::kStep);
  grid.blocks = Dim3{2 * std::min(stages, processors / 2)};
  grid.shared_bytes = args.tile_rows == 64    ? tiled::Sizes<64, 1>::kSharedBytes
                      : args.tile_rows == 128 ? tiled::Sizes<128, 1>::kSharedBytes
                                              : tiled::Sizes<256, 1>::kSharedBytes;
  return grid;
}

}  // namespace attacca::kernels
