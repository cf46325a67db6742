// counters.hpp: what a GPU's own counters say of work: the bytes that it moved between memory and
// L2, and its FLOPs. CUPTI's range profiler reads them, where the driver lets it.
#pragma once

#include <attacca/device.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace attacca::instruments {

enum class Counter : std::uint8_t {
  memory_bytes,
  /// Additions and multiplications in fp32, and those of the matrix units with operands in bf16,
  /// fp16 and fp8. Arithmetic of other kinds, as in pairs of bf16, is not counted.
  flops,
};

/// What each piece of work counted; it waits for its own end. Empty, with the reason, where the
/// counter cannot be read. Pieces run as often as the counter needs, one after another. REQUIRES: a
/// CUDA device, and no GpuRecorder lives.
std::vector<double> count(Counter counter, const Device& device,
                          std::span<const std::function<void()>> work, std::string& why_not);

}  // namespace attacca::instruments
