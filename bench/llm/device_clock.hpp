// device_clock.hpp: how long what is put on a stream takes, on a GPU by its own clock.
#pragma once

#include <attacca/device.hpp>
#include <functional>

namespace bench {

using Launch = std::function<void(attacca::StreamRef)>;

/// Microseconds of one of `count` launches in a row. On a GPU from event to event, so that the host
/// is on the clock only where the GPU waits for it.
using DeviceClock = std::function<double(const Launch& launch, unsigned count)>;
DeviceClock device_clock(const attacca::Device& device);

}  // namespace bench
