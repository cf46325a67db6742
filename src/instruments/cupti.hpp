// cupti.hpp: what a CUDA GPU ran, and the calls that this process made to its driver, as CUPTI
// tells them. It is loaded when it is there.
#pragma once

#include <attacca/timeline.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attacca::instruments {

class GpuRecorder {
 public:
  virtual ~GpuRecorder() = default;
  virtual std::vector<Span> spans() = 0;
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
/// null, with the reason, where that cannot be.
std::unique_ptr<CallCounter> start_call_counter(std::string& why_not);

}  // namespace attacca::instruments
