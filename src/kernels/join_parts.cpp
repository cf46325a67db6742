// join_parts.cpp: the kernel of join_parts.hpp, one block of rows at a time on the host and one
// thread for each element on CUDA.
#include "kernels/join_parts.hpp"

#include <algorithm>

#include "kernels/blocks.hpp"

namespace attacca::kernels {
namespace {

struct JoinParts {
  static constexpr const char* name = "join_parts";
  using Args = JoinPartsArgs;

  static Cost cost(const Args& a) {
    return {.flops = 0, .bytes = 8.0 * a.rows.capacity * a.columns};
  }

  static void host_block(Thread& t, const Args& a) {
    const std::uint32_t count = std::min(*a.rows.count, a.rows.capacity);
    const RowRange rows = rows_of_block(count, t.block.x, t.blocks.x);
    for (std::uint32_t row = rows.first; row < rows.last; ++row)
      for (std::uint32_t first = 0; first < a.columns; first += a.part)
        std::copy_n(element(a, row, first), std::min(a.part, a.columns - first),
                    a.y + std::uint64_t{row} * a.columns + first);
  }
  ATTACCA_DEVICE static void cuda(Thread& t, const Args& a) {
    const std::uint64_t row = t.index() / a.columns;
    if (row < *a.rows.count && row < a.rows.capacity)
      a.y[t.index()] = *element(a, row, static_cast<std::uint32_t>(t.index() % a.columns));
  }

 private:
  ATTACCA_HD static const float* element(const Args& a, std::uint64_t row, std::uint32_t column) {
    const std::uint32_t rank = column / a.part;
    const std::uint32_t left = a.columns - rank * a.part;
    const std::uint32_t width = left < a.part ? left : a.part;
    return a.parts + std::uint64_t{rank} * a.rows.capacity * a.part + row * width +
           (column - rank * a.part);
  }
};

}  // namespace

const Kernel<JoinPartsArgs>& join_parts() {
  static const Kernel<JoinPartsArgs> kernel = make_kernel<JoinParts>();
  return kernel;
}

Grid grid_of(const JoinPartsArgs& args, bool is_cuda) {
  const std::uint64_t elements = 1ull * args.rows.capacity * args.columns;
  return is_cuda ? Grid::covering(elements) : host_grid(elements, 65536);
}

}  // namespace attacca::kernels
