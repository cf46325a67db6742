// counters.hpp: what a GPU's own counters say of work: the bytes that it moved between memory and
// L2. CUPTI's range profiler reads them, where the driver lets it.
#pragma once

#include <attacca/device.hpp>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace attacca::instruments {

/// The bytes of each piece of work, which waits for its own end; empty, with the reason, where
/// counters cannot be read. Pieces run as often as the counters need, one after another. REQUIRES:
/// a CUDA device, and no GpuRecorder lives.
std::vector<double> count_memory_bytes(const Device& device,
                                       std::span<const std::function<void()>> work,
                                       std::string& why_not);

}  // namespace attacca::instruments
