// overlap.hpp: what the two halves of the overlap experiment share: the kernel of
// overlap_kernels.cpp, and the measurements.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

namespace bench {
class Run;
}

namespace bench::overlap {

/// out[i] = in[i], scrambled `turns` times.
struct ScrambleArgs {
  const std::uint32_t* in;
  std::uint32_t* out;
  std::uint64_t count;
  unsigned turns;
};
extern const attacca::Kernel<ScrambleArgs> scramble;

ATTACCA_HD constexpr std::uint32_t scrambled(std::uint32_t x, unsigned turns) {
  for (unsigned at = 0; at < turns; ++at) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  return x;
}

/// Copies and kernels at once, against one after another; in overlap.cpp.
void measure_pipeline(Run& run);
/// Memory allocated in stream order, against allocated at once; in overlap_allocation.cpp.
void measure_allocation(Run& run);

}  // namespace bench::overlap
