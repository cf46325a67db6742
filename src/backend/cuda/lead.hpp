// lead.hpp: the kernel in front of a graph's many roots. The driver launches each root by itself,
// at 0.8 to 1.3 us of the host's time each (H200, driver 580). Behind one kernel that does
// nothing they cost 0.3 to 0.5 us. An empty node in their place changes nothing.
#pragma once

#include <cstddef>

namespace attacca::cuda {

/// From this many kernels on that wait for nothing, they wait for a lead: 3.6 us a launch instead
/// of 4.9 with 4 of them, 25 to 33 instead of 70 with 64 (docs/trials.md).
inline constexpr std::size_t kRootsWithLead = 4;

/// The __global__ function, without parameters.
const void* lead_kernel();

}  // namespace attacca::cuda
