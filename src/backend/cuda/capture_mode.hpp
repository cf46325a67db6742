// capture_mode.hpp: what a thread may call while one of its streams is captured.
#pragma once

#include <cuda_runtime.h>

namespace attacca::cuda {

/// While it lives, this thread is in another mode towards captures. Relaxed: it may allocate
/// memory, and ask a stream that is not captured whether it is idle, which CUDA forbids it
/// otherwise.
class CaptureMode {
 public:
  explicit CaptureMode(cudaStreamCaptureMode mode) : mode_(mode) {
    (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  }
  ~CaptureMode() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  CaptureMode(const CaptureMode&) = delete;
  CaptureMode& operator=(const CaptureMode&) = delete;

 private:
  cudaStreamCaptureMode mode_;
};

}  // namespace attacca::cuda
