// read_bandwidth.hpp: the measured read bandwidth of a device's memory, the floor of a decode step.
#pragma once

#include <attacca/device.hpp>

namespace bench {

/// Bytes per second, the best of a few passes over more than any cache holds.
double read_bandwidth(const attacca::Device& device);

}  // namespace bench
