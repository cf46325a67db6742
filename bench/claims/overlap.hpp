// overlap.hpp: what the two halves of the overlap experiment share: the kernel of
// overlap_kernels.cpp, and the measurements.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "claims/scrambled.hpp"

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

/// Copies and kernels at once, against one after another; in overlap.cpp.
void measure_pipeline(Run& run);
/// Memory allocated in stream order, against allocated at once; in overlap_allocation.cpp.
void measure_allocation(Run& run);

}  // namespace bench::overlap
