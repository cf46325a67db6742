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

CudaStream::CudaStream(CudaDevice& device) : device_(device) {
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
  if (kernel.traits.spawns) port = device_.faults().port(kernel.name, "(none: a stream)");
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
      HostCall{name, "(none: a stream)", std::move(call), own_errors_, captured_calls == nullptr});
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

void CudaStream::watch(const std::shared_ptr<ErrorBox>& errors) {
  if (std::find(watched_.begin(), watched_.end(), errors) == watched_.end())
    watched_.push_back(errors);
}

void CudaStream::synchronize() {
  check(cudaStreamSynchronize(stream_), "synchronizing a stream");
  std::exception_ptr error = own_errors_->take();
  for (const auto& box : watched_)
    if (std::exception_ptr other = box->take(); other && !error) error = other;
  watched_.clear();
  if (error) std::rethrow_exception(error);
  device_.throw_faults();
}

}  // namespace attacca::cuda
