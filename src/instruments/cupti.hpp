// cupti.hpp: what a CUDA GPU ran, and the calls that this process made to its driver, as CUPTI
// tells them. It is loaded when it is there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attacca::instruments {

/// CUPTI's library; null, with the reason, where it was not found. It is never unloaded: it does
/// not survive that.
void* cupti_library(std::string& why_not);

/// A kernel, copy or fill that ran.
struct GpuSpan {
  std::string name;  // of the function
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;  // both by the clock of core/clock.hpp
  unsigned stream = 0;
  std::uint64_t node = 0;  // that GpuRecorder::number_of tells; 0: it was in no graph
};

class GpuRecorder {
 public:
  virtual ~GpuRecorder() = default;
  virtual std::vector<GpuSpan> spans() = 0;
  /// The number of a graph's node in spans; 0 where CUPTI does not tell. `native` is a
  /// cudaGraphNode_t of a graph that is not instantiated yet.
  virtual std::uint64_t number_of(void* native) = 0;
  /// Spans that had no room; four million have.
  virtual std::size_t dropped() const = 0;
};

/// Starts recording kernels, copies and fills of this process; null, with the reason, where that
/// cannot be.
std::unique_ptr<GpuRecorder> start_gpu_recorder(std::string& why_not);

class CallCounter {
 public:
  virtual ~CallCounter() = default;
  /// Calls since it was started, by all threads.
  virtual std::uint64_t calls() const = 0;
};

/// Starts counting this process's calls of the CUDA driver, which those of the runtime become;
/// null, with the reason, where that cannot be. From then on, and when the counter is gone too,
/// graphs that the device launches start 1 to 2 µs later in this process (driver 580).
std::unique_ptr<CallCounter> start_call_counter(std::string& why_not);

}  // namespace attacca::instruments
