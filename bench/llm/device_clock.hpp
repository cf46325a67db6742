// device_clock.hpp: the time that work on a stream takes, on a GPU by the GPU's own clock.
#pragma once

#include <attacca/device.hpp>
#include <functional>

namespace bench {

using Launch = std::function<void(attacca::StreamRef)>;

/// Microseconds of one of `count` launches in a row. On a GPU it is the time between events, so the
/// host counts only while the GPU waits for it.
using DeviceClock = std::function<double(const Launch& launch, unsigned count)>;
DeviceClock device_clock(const attacca::Device& device);

}  // namespace bench
