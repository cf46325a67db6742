// gather_residual.cpp: the kernel of gather_residual.hpp, one block for each row.
#include "kernels/gather_residual.hpp"

#include <algorithm>

#include "kernels/blocks.hpp"

namespace attacca::kernels {
namespace {

constexpr unsigned kThreads = 256;

struct GatherResidual {
  static constexpr const char* name = "gather_residual";
  static constexpr bool waits = true;
  using Args = GatherResidualArgs;

  static Cost cost(const Args& a) {
    return {.flops = 0, .bytes = 2.0 * a.rows.capacity * (2.0 * a.to.columns + 4.0 * a.to.parts())};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    const RowRange rows =
        rows_of_block(std::min(*a.rows.count, a.rows.capacity), t.block.x, t.blocks.x);
    for (std::uint64_t row = rows.first; row < rows.last; ++row) {
      const auto from = static_cast<std::uint64_t>(a.gather[row]);
      std::copy_n(a.from.scaled + from * a.to.columns, a.to.columns,
                  a.to.scaled + row * a.to.columns);
      std::copy_n(a.from.squares + from * a.to.parts(), a.to.parts(),
                  a.to.squares + row * a.to.parts());
    }
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    t.wait_for_producers();
    t.release_consumers();
    const std::uint64_t row = blockIdx.x;
    if (row >= *a.rows.count) return;
    const auto from = static_cast<std::uint64_t>(a.gather[row]);
    for (std::uint32_t i = threadIdx.x; i < a.to.columns / 2; i += kThreads)
      reinterpret_cast<std::uint32_t*>(a.to.scaled + row * a.to.columns)[i] =
          reinterpret_cast<const std::uint32_t*>(a.from.scaled + from * a.to.columns)[i];
    for (std::uint32_t i = threadIdx.x; i < a.to.parts(); i += kThreads)
      a.to.squares[row * a.to.parts() + i] = a.from.squares[from * a.to.parts() + i];
#endif
  }
};

}  // namespace

const Kernel<GatherResidualArgs>& gather_residual() {
  static const Kernel<GatherResidualArgs> kernel = make_kernel<GatherResidual>();
  return kernel;
}

Grid grid_of(const GatherResidualArgs& args, bool is_cuda) {
  if (!is_cuda) return host_grid(1ull * args.rows.capacity * args.to.columns, 1 << 16);
  return Grid{Dim3{args.rows.capacity}, Dim3{kThreads}};
}

}  // namespace attacca::kernels
