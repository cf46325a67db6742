// stream.hpp: CUDA streams and events.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/faults.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

class CudaEvent final : public graph::EventImpl {
 public:
  CudaEvent();
  ~CudaEvent() override;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public graph::StreamImpl {
 public:
  explicit CudaStream(CudaDevice& device);
  ~CudaStream() override;

  void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void host(const std::string& name, std::function<void()> call) override;
  void record(graph::EventImpl& event) override;
  void wait(graph::EventImpl& event) override;
  void synchronize() override;
  void* native() override { return stream_; }

  cudaStream_t get() const { return stream_; }
  /// Reports failures of this box at the next `synchronize`. `launches`: and of the graphs that
  /// device code may have launched from there.
  void watch(const std::shared_ptr<FaultBox>& faults, bool launches);
  /// While set, host calls are captured into a graph: they run many times and belong to it.
  std::vector<std::unique_ptr<HostCall>>* captured_calls = nullptr;

 private:
  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  std::shared_ptr<FaultBox> own_faults_;
  std::vector<std::shared_ptr<FaultBox>> watched_;
  bool has_launched_launchers_ = false;
};

}  // namespace attacca::cuda
