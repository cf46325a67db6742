// sm90_matrix.hpp: the measured rate of a Hopper GPU's matrix units.
#pragma once

#include <attacca/device.hpp>

namespace attacca::roofline {

/// Launches a kernel that multiplies matrices in shared memory and does nothing else. Returns its
/// FLOPs. `out`: [1] on the device. REQUIRES: compute capability 9.0; bf16 or fp8.
double launch_sm90_matrix(StreamRef stream, Arithmetic arithmetic, float* out);

}  // namespace attacca::roofline
