// cupti.hpp: records of what a CUDA GPU ran, from CUPTI, which is loaded when it is there.
#pragma once

#include <attacca/timeline.hpp>
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

}  // namespace attacca::instruments
