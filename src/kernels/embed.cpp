// embed.cpp: the two kernels of embed.hpp, one block of rows at a time on the host and one thread
// for each element on CUDA.
#include "kernels/embed.hpp"

#include <algorithm>

#include "kernels/blocks.hpp"
#include "kernels/put_residual.hpp"
#include "kernels/quantization.hpp"

namespace attacca::kernels {
namespace {

struct Embed {
  static constexpr const char* name = "embed";
  using Args = EmbedArgs;

  static Cost cost(const Args& a) {
    const double read = 1.0 * row_bytes(a.table.type, a.table.columns) + sizeof *a.tokens;
    return {.flops = 2.0 * a.rows.capacity * a.table.columns,
            .bytes = a.rows.capacity * (read + sizeof(float) * a.table.columns)};
  }

  static void host_block(Thread& t, const Args& a) {
    const std::uint32_t count = std::min(*a.rows.count, a.rows.capacity);
    const RowRange rows = rows_of_block(count, t.block.x, t.blocks.x);
    for (std::uint32_t row = rows.first; row < rows.last; ++row)
      for (std::uint32_t column = 0; column < a.table.columns; ++column) write(a, row, column);
  }

  /// One thread for each element.
  ATTACCA_DEVICE static void cuda(Thread& t, const Args& a) {
    const std::uint64_t row = t.index() / a.table.columns;
    if (row < *a.rows.count && row < a.rows.capacity)
      write(a, row, static_cast<std::uint32_t>(t.index() % a.table.columns));
  }

 private:
  ATTACCA_HD static void write(const Args& a, std::uint64_t row, std::uint32_t column) {
    const void* from = a.table.row(static_cast<std::uint32_t>(a.tokens[row]));
    a.y[row * a.table.columns + column] = element(a.table.type, from, column);
  }
};

struct EmbedResidual {
  static constexpr const char* name = "embed_residual";
  static constexpr bool waits = true;
  using Args = EmbedResidualArgs;

  static Cost cost(const Args& a) {
    const double read = 1.0 * row_bytes(a.table.type, a.table.columns) + sizeof *a.tokens;
    return {.flops = 4.0 * a.rows.capacity * a.table.columns,
            .bytes = a.rows.capacity * (read + 10.0 * a.table.columns)};
  }

  static void host_block(Thread& t, const Args& a) { embed_residual_on_host(t, a); }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    t.release_consumers();
    t.wait_for_producers();
    put_element(t, a.residual, a.rows, a.next_norm,
                [&](std::uint64_t row, std::uint32_t column) { return embedded(a, row, column); });
#endif
  }
};

}  // namespace

void embed_residual_on_host(Thread& t, const EmbedResidualArgs& a) {
  t.wait_for_producers();
  put_rows(t, a.residual, a.rows, a.next_norm,
           [&](std::uint64_t row, std::uint32_t column) { return embedded(a, row, column); });
}

const Kernel<EmbedArgs>& embed() {
  static const Kernel<EmbedArgs> kernel = make_kernel<Embed>();
  return kernel;
}

const Kernel<EmbedResidualArgs>& embed_residual() {
  static const Kernel<EmbedResidualArgs> kernel = make_kernel<EmbedResidual>();
  return kernel;
}

Grid grid_of(const EmbedResidualArgs& args, bool is_cuda) {
  const std::uint64_t elements = 1ull * args.rows.capacity * args.residual.columns;
  return is_cuda ? Grid::covering(elements) : host_grid(elements, 16384);
}

Grid grid_of(const EmbedArgs& args, bool is_cuda) {
  const std::uint64_t elements = 1ull * args.rows.capacity * args.table.columns;
  if (is_cuda) return Grid::covering(elements);
  return host_grid(elements, 16384);
}

}  // namespace attacca::kernels
