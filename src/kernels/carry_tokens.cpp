// carry_tokens.cpp: the kernel of carry_tokens.hpp, one body for host and device.
#include "kernels/carry_tokens.hpp"

#include "kernels/blocks.hpp"

namespace attacca::kernels {
namespace {

struct CarryTokens {
  static constexpr const char* name = "carry_tokens";
  static constexpr bool waits = true;
  using Args = CarryTokensArgs;

  static Cost cost(const Args& a) { return {.flops = 0, .bytes = 12.0 * a.rows.capacity}; }

  ATTACCA_HD static void body(Thread& t, const Args& a) {
    t.release_consumers();
    t.wait_for_producers();
    for (std::uint64_t row = t.index(); row < *a.rows.count && row < a.rows.capacity;
         row += t.stride())
      if (a.from[row] >= 0) a.tokens[row] = a.sampled[a.from[row]].token;
  }
};

}  // namespace

const Kernel<CarryTokensArgs>& carry_tokens() {
  static const Kernel<CarryTokensArgs> kernel = make_kernel<CarryTokens>();
  return kernel;
}

Grid grid_of(const CarryTokensArgs& args, bool is_cuda) {
  return is_cuda ? Grid::covering(args.rows.capacity) : Grid::covering(1, 1);
}

}  // namespace attacca::kernels
