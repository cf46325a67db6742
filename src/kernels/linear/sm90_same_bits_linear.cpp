// sm90_same_bits_linear.cpp: defines the kernel of sm90_same_bits_linear.hpp, its tensor maps and
// its grid. The CUDA body is in sm90_same_bits_linear.cuh. This file is compiled for sm_90a only.
#include "kernels/linear/sm90_same_bits_linear.hpp"

#include <array>

#include "kernels/waits.hpp"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "kernels/linear/sm90_same_bits_linear.cuh"
#endif

namespace attacca::kernels {
namespace {

constexpr std::uint32_t kBoxColumns = 64;
constexpr std::uint32_t kBoxes = same_bits::kColumns / kBoxColumns;  // boxes of a stage's columns

struct SameBitsLinear {
  static constexpr const char* name = "same_bits_linear";
  static constexpr bool waits = true;
  static constexpr const char* waits_for[] = {kFullWait, kEmptyWait};
  static constexpr unsigned max_threads = same_bits::kThreads;
  static constexpr unsigned min_blocks = 1;
  static constexpr unsigned cluster = 2;
  using Args = SameBitsLinearArgs;

  static Cost cost(const Args& a) { return streamed_linear(a.product).cost(a.product); }

  static void host_block(Thread& t, const Args& a) { streamed_linear_on_host(t, a.product); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] WaitingThread& t,
                                  [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    same_bits::Block(a).run(t);
#endif
  }
};

/// Tiles of kTileRows rows, taken in equal parts from `matrices` matrices that are `apart` bytes
/// apart.
TensorMap map_tiles(const Device& device, const Matrix& w, std::uint32_t matrices,
                    std::uint64_t apart) {
  const std::uint64_t row = 2ull * w.columns;
  const std::uint32_t rows = same_bits::kTileRows / matrices;
  return tensor_map(device, w.data,
                    std::array<TensorDimension, 5>{{{kBoxColumns, 2, kBoxColumns},
                                                    {rows, row, rows},
                                                    {matrices, apart, matrices},
                                                    {w.rows / rows, rows * row, 1},
                                                    {w.columns / kBoxColumns, 128, kBoxes}}});
}

}  // namespace

bool has_same_bits_linear(const Device& device, unsigned processors) {
  return device.compute_capability() == 90 && processors % 2 == 0;
}

TensorMap map_tiles(const Device& device, const Matrix& w) { return map_tiles(device, w, 1, 16); }

TensorMap map_tiles(const Device& device, const Matrix& gate, const Matrix& up) {
  const bool is_second = gate_is_second(gate, up);
  const Matrix& first = is_second ? up : gate;
  const Matrix& second = is_second ? gate : up;
  return map_tiles(device, first, 2,
                   static_cast<std::uint64_t>(static_cast<const std::byte*>(second.data) -
                                              static_cast<const std::byte*>(first.data)));
}

TensorMap map_same_bits_rows(const Device& device, const void* x, std::uint32_t rows,
                             std::uint32_t columns) {
  return tensor_map(
      device, x,
      std::array<TensorDimension, 3>{{{kBoxColumns, 2, kBoxColumns},
                                      {rows, 2ull * columns, same_bits::kRows / 2},
                                      {columns / kBoxColumns, 2 * kBoxColumns, kBoxes}}});
}

const Kernel<SameBitsLinearArgs>& same_bits_linear() {
  static const Kernel<SameBitsLinearArgs> kernel = make_kernel<SameBitsLinear>();
  return kernel;
}

Grid same_bits_grid(unsigned processors) {
  Grid grid{Dim3{processors}, Dim3{same_bits::kThreads}};
  grid.shared_bytes = same_bits::kSharedBytes;
  return grid;
}

}  // namespace attacca::kernels
