// stream.cpp: see stream.hpp.
#include "backend/cuda/stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/check.hpp"

namespace attacca::cuda {

using namespace graph;

CudaEvent::CudaEvent() {
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
}
CudaEvent::~CudaEvent() { (void)cudaEventDestroy(event_); }

CudaStream::CudaStream(CudaDevice& device)
    : device_(device), own_faults_(std::make_shared<FaultBox>(device.fault_memory())) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

CudaStream::~CudaStream() {
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
  (void)cudaGetLastError();
}

void CudaStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  if (!kernel.cuda)
    throw GraphError(Rule::no_body_for_backend, kernel.name,
                     fmt::format("kernel '{}' has no CUDA body; compile the file that calls "
                                 "make_kernel with nvcc (attacca_kernels in CMake)",
                                 kernel.name));
  allow_shared_bytes(kernel, grid);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.blocks.x, grid.blocks.y, grid.blocks.z);
  config.blockDim = dim3(grid.threads.x, grid.threads.y, grid.threads.z);
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream_;
  attacca::detail::LaunchPort port;
  if (kernel.traits.has_port) port = own_faults_->port(kernel, kernel.name, "(none: a stream)");
  void* parameters[] = {const_cast<void*>(args), &port};
  check(cudaLaunchKernelExC(&config, kernel.cuda, parameters),
        [&] { return fmt::format("launching kernel '{}'", kernel.name); });
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
        [&] { return fmt::format("copying {} bytes", bytes); });
}

void CudaStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  check(cudaMemsetAsync(to, value, bytes, stream_),
        [&] { return fmt::format("filling {} bytes", bytes); });
}

void CudaStream::host(const std::string& name, std::function<void()> call) {
  auto host_call = std::make_unique<HostCall>(
      HostCall{name, "(none: a stream)", std::move(call), own_faults_, captured_calls == nullptr});
  check(cudaLaunchHostFunc(stream_, &HostCall::run, host_call.get()),
        [&] { return fmt::format("enqueuing host call '{}'", name); });
  if (captured_calls)
    captured_calls->push_back(std::move(host_call));
  else
    (void)host_call.release();  // HostCall::run deletes it
}

void CudaStream::record(EventImpl& event) {
  check(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_));
}

void CudaStream::wait(EventImpl& event) {
  check(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).get()));
}

void CudaStream::watch(const std::shared_ptr<FaultBox>& faults, bool launches) {
  has_launched_launchers_ = has_launched_launchers_ || launches;
  if (std::find(watched_.begin(), watched_.end(), faults) == watched_.end())
    watched_.push_back(faults);
}

void CudaStream::synchronize() {
  check(cudaStreamSynchronize(stream_), "synchronizing a stream");
  const std::size_t spawn_limit = device_.spawn_limit();
  std::exception_ptr error = own_faults_->take(spawn_limit);
  if (has_launched_launchers_)
    for (const auto& box : device_.device_graphs()) watched_.push_back(box);
  for (const auto& box : watched_)
    if (std::exception_ptr other = box->take(spawn_limit); other && !error) error = other;
  watched_.clear();
  has_launched_launchers_ = false;
  if (error) std::rethrow_exception(error);
}

}  // namespace attacca::cuda
