// embed.cpp: the kernel of embed.hpp.
#include "kernels/embed.hpp"

#include "kernels/blocks.hpp"
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

  /// A thread for each element.
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

  /// A thread for each part of a row.
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    const std::uint64_t row = t.index() / a.residual.parts();
    if (row >= *a.rows.count || row >= a.rows.capacity) return;
    const auto part = static_cast<std::uint32_t>(t.index() % a.residual.parts());
    const void* from = a.table.row(static_cast<std::uint32_t>(a.tokens[row]));
    float squares = 0;
    for (std::uint32_t i = 0; i < Residual::kPart; ++i) {
      const std::uint32_t column = part * Residual::kPart + i;
      const float value = element(a.table.type, from, column);
      const std::uint64_t at = row * a.residual.columns + column;
      const float scaled = value * a.next_norm[column];
      const std::uint16_t rounded = bfloat_of_float(scaled);
      a.residual.values[at] = value;
      a.residual.scaled[at] = rounded;
      if (a.residual.rest) a.residual.rest[at] = bfloat_of_float(scaled - float_of_bfloat(rounded));
      squares += value * value;
    }
    a.residual.squares[row * a.residual.parts() + part] = squares;
  }
};

}  // namespace

const Kernel<EmbedArgs>& embed() {
  static const Kernel<EmbedArgs> kernel = make_kernel<Embed>();
  return kernel;
}

const Kernel<EmbedResidualArgs>& embed_residual() {
  static const Kernel<EmbedResidualArgs> kernel = make_kernel<EmbedResidual>();
  return kernel;
}

Grid grid_of(const EmbedResidualArgs& args, bool) {
  return Grid::covering(1ull * args.rows.capacity * args.residual.parts());
}

Grid grid_of(const EmbedArgs& args, bool is_cuda) {
  const std::uint64_t elements = 1ull * args.rows.capacity * args.table.columns;
  if (is_cuda) return Grid::covering(elements);
  return host_grid(elements, 16384);
}

}  // namespace attacca::kernels
