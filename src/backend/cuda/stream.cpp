// stream.cpp: see stream.hpp.
#include "backend/cuda/stream.hpp"

#include <fmt/format.h>

#include "backend/cuda/check.hpp"

namespace attacca::cuda {

using namespace graph;

CudaEvent::CudaEvent(const CudaDevice& on) : device_(on.index()) {
  const CurrentDevice current(device_);
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "creating an event");
}
CudaEvent::~CudaEvent() {
  const CurrentDevice current(device_, std::nothrow);
  (void)cudaEventDestroy(event_);
}

CudaStream::CudaStream(CudaDevice& device)
    : device_(device), faults_(device.faults()), listed_(*this) {
  const CurrentDevice current(device.index());
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

CudaStream::~CudaStream() {
  const CurrentDevice current(device_.index(), std::nothrow);
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
  (void)cudaGetLastError();
}

void* CudaStream::native() {
  if (!capture) is_lent_ = true;
  return enqueuing();
}

void CudaStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  if (!kernel.cuda)
    throw GraphError(Rule::no_body_for_backend, kernel.name,
                     fmt::format("kernel '{}' has no CUDA body; compile the file that calls "
                                 "make_kernel with nvcc (attacca_kernels in CMake)",
                                 kernel.name));
  const CurrentDevice current(device_.index());
  device_.allow_shared_bytes(kernel, grid);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.blocks.x, grid.blocks.y, grid.blocks.z);
  config.blockDim = dim3(grid.threads.x, grid.threads.y, grid.threads.z);
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = enqueuing();
  attacca::detail::LaunchPort port;
  if (kernel.traits.has_port) {
    FaultBox& box = capture ? *capture->faults : *faults_.own();
    port = box.port(kernel, kernel.name, capture ? capture->graph : "");
    if (capture) capture->is_watched = true;
  }
  void* parameters[] = {const_cast<void*>(args), &port};
  check(cudaLaunchKernelExC(&config, kernel.cuda, parameters),
        [&] { return fmt::format("launching kernel '{}'", kernel.name); });
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(device_.index());
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, enqueuing()),
        [&] { return fmt::format("copying {} bytes", bytes); });
}

void CudaStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  const CurrentDevice current(device_.index());
  check(cudaMemsetAsync(to, value, bytes, enqueuing()),
        [&] { return fmt::format("filling {} bytes", bytes); });
}

void CudaStream::host(const std::string& name, std::function<void()> call) {
  const CurrentDevice current(device_.index());
  auto host_call = std::make_unique<HostCall>(name, capture ? capture->graph : "", std::move(call),
                                              capture ? capture->faults : faults_.own());
  HostCall* const data = host_call.get();
  if (capture) {
    capture->calls.push_back(std::move(host_call));
    capture->is_watched = true;
  } else {
    while (!calls_.empty() && calls_.front()->has_ended()) calls_.pop_front();
    calls_.push_back(std::move(host_call));
  }
  const cudaError_t result = cudaLaunchHostFunc(enqueuing(), &HostCall::run, data);
  if (result != cudaSuccess && !capture) calls_.pop_back();
  check(result, [&] { return fmt::format("enqueuing host call '{}'", name); });
}

void CudaStream::record(EventImpl& event) {
  const CurrentDevice current(device_.index());
  check(cudaEventRecord(static_cast<CudaEvent&>(event).get(), enqueuing()));
}

void CudaStream::wait(EventImpl& event) {
  const CurrentDevice current(device_.index());
  check(cudaStreamWaitEvent(enqueuing(), static_cast<CudaEvent&>(event).get()));
}

void CudaStream::synchronize() {
  const CurrentDevice current(device_.index());
  // Taken before we wait: what is given to us meanwhile may still be in use when we have waited.
  auto kept = device_.take_kept(*this);
  check(cudaStreamSynchronize(stream_), "synchronizing a stream");
  is_busy_.store(is_lent_, std::memory_order_relaxed);
  faults_.collect();  // before the boxes go that are kept for us
  kept.clear();
  calls_.clear();
  faults_.rethrow();
}

}  // namespace attacca::cuda
