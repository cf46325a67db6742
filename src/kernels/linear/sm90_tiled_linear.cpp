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

/// `kRotates`: the only epilogue is that of rope_epilogue.hpp, which no other kernel has.
template <unsigned kRows, unsigned kHeight, bool kInOrder, TensorType kType, bool kRotates>
struct TiledLinear {
  static constexpr const char* name = kRotates ? "rotating_tiled_linear" : "tiled_linear";
  static constexpr bool waits = true;
  static constexpr bool blocks_wait = kHeight == 1;  // tall tiles are never split
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait, tiled::kPartialsWait};
  static constexpr unsigned max_threads = tiled::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = 2;
  using Args = TiledLinearArgs;

  static Cost cost(const Args& a) {
    Cost cost = streamed_linear(a.product).cost(a.product);
    if (kRotates) cost.bytes -= bytes_saved(a);
    return cost;
  }

  static void host_block(Thread& t, const Args& a) { streamed_linear_on_host(t, a.product); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    tiled::Block<kRows, kHeight, kInOrder, kType, kRotates>(a).run(t);
#endif
  }

 private:
  /// Heads that are rotated are stored in 16 bits and not in 32, but for queries in f32. One prompt
  /// would be a long run.
  static double bytes_saved(const Args& a) {
    const std::uint32_t in_floats = a.rope.rounds_queries ? 0 : a.rope.heads * a.rope.kv.head_size;
    return 2.0 * a.product.rows.capacity * (a.product.w.rows - in_floats);
  }
};

bool is_e4m3(const TiledLinearArgs& args) { return args.product.w.type == TensorType::e4m3; }

template <unsigned kRows, unsigned kHeight, bool kInOrder, TensorType kType = TensorType::bf16,
          bool kRotates = false>
const Kernel<TiledLinearArgs>& made() {
  static const Kernel<TiledLinearArgs> kernel =
      make_kernel<TiledLinear<kRows, kHeight, kInOrder, kType, kRotates>>();
  return kernel;
}
template <unsigned kRows>
const Kernel<TiledLinearArgs>& rotating_kernel(TensorType type) {
  if (type == TensorType::e4m3) return made<kRows, 1, false, TensorType::e4m3, true>();
  if (type == TensorType::f16) return made<kRows, 1, false, TensorType::f16, true>();
  return made<kRows, 1, false, TensorType::bf16, true>();
}
template <unsigned kRows, unsigned kHeight>
const Kernel<TiledLinearArgs>& kernel_of(const TiledLinearArgs& args) {
  if constexpr (kHeight == 1)
    if (args.rotates()) return rotating_kernel<kRows>(args.product.w.type);
  if (is_e4m3(args)) return made<kRows, kHeight, false, TensorType::e4m3>();
  if (args.product.w.type == TensorType::f16) return made<kRows, kHeight, false, TensorType::f16>();
  if constexpr (kRows <= 128)
    if (args.in_order) return made<kRows, kHeight, true>();
  return made<kRows, kHeight, false>();
}
template <unsigned kRows, unsigned kHeight>
unsigned shared_bytes(const TiledLinearArgs& args) {
  return is_e4m3(args) ? tiled::Sizes<kRows, kHeight, TensorType::e4m3>::kSharedBytes
                       : tiled::Sizes<kRows, kHeight, TensorType::bf16>::kSharedBytes;
}

constexpr std::uint32_t divided_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

/// How long a product takes with such tiles, in tenths of a stage of 128 rows in bf16, as
/// TileScheduler divides it. Tiles of 256 rows hide that e4m3 is converted. With these figures the
/// faster of both was chosen for each matrix of Llama 1B and 8B and 128 to 2048 rows on an H200
/// (docs/trials.md).
template <unsigned kRows>
std::uint64_t price_of(const TiledLinearArgs& args, unsigned processors) {
  const std::uint64_t stage_price = kRows == 256 ? 18 : is_e4m3(args) ? 12 : 10;
  constexpr std::uint64_t kSplitPrice = kRows == 256 ? 190 : 100;
  const std::uint32_t pairs = processors / 2;
  const std::uint32_t stages = divided_up(args.product.w.columns, tiled::kStep);
  const std::uint32_t tiles = args.weight_tiles() * divided_up(args.product.rows.capacity, kRows);
  const std::uint32_t each = std::min(pairs / tiles, stages);
  if (each > 1) return divided_up(stages, each) * stage_price + kSplitPrice;
  return std::uint64_t{divided_up(tiles, pairs)} * stages * stage_price;
}

/// Tall tiles are used where nearly every pair of SMs gets one and none must be split. No model has
/// so many heads, so none rotate.
std::uint32_t tall_tiles(const TiledLinearArgs& args) { return (args.weight_tiles() + 1) / 2; }
bool is_tall(const TiledLinearArgs& args, unsigned processors) {
  const std::uint32_t pairs = processors / 2;
  return args.tile_rows == 64 && !args.rotates() && tall_tiles(args) <= pairs &&
         5 * tall_tiles(args) >= 4 * pairs;
}

/// The columns of weights, in elements of two bytes.
TensorDimension columns_of(const Matrix& w) {
  return {row_bytes(w.type, w.columns) / 2, 2,
          static_cast<std::uint32_t>(row_bytes(w.type, tiled::kStep) / 2)};
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
  const std::uint64_t row = row_bytes(w.type, w.columns);
  return tensor_map(device, w.data,
                    std::array<TensorDimension, 4>{{columns_of(w),
                                                    {8, row, 8},
                                                    {1, 8 * row, 1},
                                                    {w.rows / 8, 8 * row, tiled::kPairRows / 16}}});
}

TensorMap map_weights(const Device& device, const Matrix& gate, const Matrix& up) {
  const bool is_second = gate_is_second(gate, up);
  const Matrix& first = is_second ? up : gate;
  const Matrix& second = is_second ? gate : up;
  const std::uint64_t row = row_bytes(first.type, first.columns);
  const auto apart = static_cast<std::uint64_t>(static_cast<const std::byte*>(second.data) -
                                                static_cast<const std::byte*>(first.data));
  return tensor_map(
      device, first.data,
      std::array<TensorDimension, 4>{{columns_of(first),
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
  if (is_tall(args, processors)) return kernel_of<64, 2>(args);
  switch (args.tile_rows) {
    case 64:
      return kernel_of<64, 1>(args);
    case 128:
      return kernel_of<128, 1>(args);
    default:
      return kernel_of<256, 1>(args);
  }
}

Grid tiled_grid(const TiledLinearArgs& args, unsigned processors) {
  Grid grid{Dim3{}, Dim3{tiled::kThreads}};
  if (is_tall(args, processors)) {
    grid.blocks = Dim3{2 * tall_tiles(args)};
    grid.shared_bytes = shared_bytes<64, 2>(args);
    return grid;
  }
  // One block for each SM, but no more pairs than there are stages in all tiles.
  const std::uint32_t stages =
      args.weight_tiles() * divided_up(args.product.w.columns, tiled::kStep);
  grid.blocks = Dim3{2 * std::min(stages, processors / 2)};
  grid.shared_bytes = args.tile_rows == 64    ? shared_bytes<64, 1>(args)
                      : args.tile_rows == 128 ? shared_bytes<128, 1>(args)
                                              : shared_bytes<256, 1>(args);
  return grid;
}

}  // namespace attacca::kernels
