// read_bandwidth.hpp: how fast a device reads its memory, measured: the floor under a decode step.
#pragma once

#include <attacca/device.hpp>

namespace bench {

/// Bytes per second, the best of a few passes over more than any cache holds.
double read_bandwidth(const attacca::Device& device);

}  // namespace bench
