// add_residual.cpp: one block of rows at a time on the host, and one thread for each element on
// CUDA.
#include "kernels/add_residual.hpp"

#include "kernels/put_residual.hpp"

namespace attacca::kernels {
namespace {

struct AddResidual {
  static constexpr const char* name = "add_residual";
  static constexpr bool waits = true;
  using Args = AddResidualArgs;

  static Cost cost(const Args& a) {
    return {.flops = (4.0 + a.count) * a.rows.capacity * a.residual.columns,
            .bytes = (10.0 + 4 * a.count) * a.rows.capacity * a.residual.columns};
  }

  static void host_block(Thread& t, const Args& a) {
    t.wait_for_producers();
    put_rows(t, a.residual, a.rows, a.next_norm,
             [&](std::uint64_t row, std::uint32_t column) { return value(a, row, column); });
  }

  ATTACCA_DEVICE static void cuda([[maybe_unused]] Thread& t, [[maybe_unused]] const Args& a) {
#if defined(__CUDA_ARCH__)
    t.release_consumers();
    t.wait_for_producers();
    put_element(t, a.residual, a.rows, a.next_norm,
                [&](std::uint64_t row, std::uint32_t column) { return value(a, row, column); });
#endif
  }

 private:
  ATTACCA_HD static float value(const Args& a, std::uint64_t row, std::uint32_t column) {
    const std::uint64_t at = row * a.residual.columns + column;
    float sum = a.parts[0][at];
    for (std::int32_t part = 1; part < a.count; ++part) sum += a.parts[part][at];
    return a.residual.values[at] + sum;
  }
};

}  // namespace

const Kernel<AddResidualArgs>& add_residual() {
  static const Kernel<AddResidualArgs> kernel = make_kernel<AddResidual>();
  return kernel;
}

Grid grid_of(const AddResidualArgs& args, bool is_cuda) {
  const std::uint64_t elements = 1ull * args.rows.capacity * args.residual.columns;
  return is_cuda ? Grid::covering(elements) : host_grid(elements, 16384);
}

}  // namespace attacca::kernels
