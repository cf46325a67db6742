// relaxed_capture.hpp: allows harmless calls that CUDA forbids a thread while one of its streams is
// captured.
#pragma once

#include <cuda_runtime.h>

namespace attacca::cuda {

/// While it lives, this thread may allocate memory, and ask a stream that is not captured whether
/// it is idle.
class RelaxedCapture {
 public:
  RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace attacca::cuda
