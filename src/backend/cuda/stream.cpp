// stream.cpp: enqueues work on CUDA streams, and settles it when a stream is synchronized or idle.
#include "backend/cuda/stream.hpp"

#include <fmt/core.h>

#include <utility>

#include "backend/cuda/capture_mode.hpp"
#include "backend/cuda/check.hpp"
#include "backend/cuda/driver.hpp"

namespace attacca::cuda {

using namespace graph;

CudaEvent::CudaEvent(const CudaDevice& on, bool keeps_time) : device_(on.index()) {
  const CurrentDevice current(device_);
  check(cudaEventCreateWithFlags(&event_, keeps_time ? cudaEventDefault : cudaEventDisableTiming),
        "creating an event");
}
CudaEvent::~CudaEvent() {
  const CurrentDevice current(device_, std::nothrow);
  (void)cudaEventDestroy(event_);
}

bool CudaEvent::is_reached() {
  const CurrentDevice current(device_);
  const cudaError_t result = cudaEventQuery(event_);
  if (result == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  check(result, "asking whether an event was reached");
  return true;
}

std::chrono::duration<double> CudaEvent::since(EventImpl& start) {
  const CurrentDevice current(device_);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(start).get(), event_),
        "asking for the time between two events");
  return std::chrono::duration<double, std::milli>(milliseconds);
}

CudaStream::CudaStream(CudaDevice& device, int priority)
    : device_(device), faults_(device.faults()), listed_(*this) {
  const CurrentDevice current(device.index());
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     device.driver_priority(priority)),
        "creating a stream");
}

CudaStream::CudaStream(CudaDevice& device, Borrowed borrowed)
    : device_(device),
      stream_(borrowed.stream),
      is_borrowed_(true),
      faults_(device.faults()),
      listed_(*this) {}

CudaStream::~CudaStream() {
  if (is_borrowed_) return;
  const CurrentDevice current(device_.index(), std::nothrow);
  (void)cudaStreamSynchronize(stream_);
  (void)cudaStreamDestroy(stream_);
  (void)cudaGetLastError();
}

void* CudaStream::native() {
  if (!capture && !is_borrowed_) is_lent_ = true;
  return enqueuing();
}

void CudaStream::settle_if_idle() {
  if (!is_busy()) return;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream_, &status) == cudaSuccess &&
      status == cudaStreamCaptureStatusNone) {
    const bool is_idle = [&] {
      const CaptureMode relaxed(cudaStreamCaptureModeRelaxed);
      return cudaStreamQuery(stream_) == cudaSuccess;
    }();
    if (is_idle) {  // and stays idle: one thread at a time uses its borrowers
      is_busy_.store(is_lent_, std::memory_order_relaxed);
      faults_.collect();  // before the boxes kept for us are destroyed
      (void)device_.take_kept(*this);
      const auto ended = std::exchange(calls_, {});  // their destructors may use this stream
    }
  }
  (void)cudaGetLastError();
}

bool CudaStream::is_being_captured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t result = cudaStreamIsCapturing(stream_, &status);
  // The legacy stream answers so while a stream that waits for it is being captured.
  if (result == cudaErrorStreamCaptureImplicit) {
    (void)cudaGetLastError();
    return true;
  }
  check(result, "asking a stream whether it is captured");
  return status != cudaStreamCaptureStatusNone;
}

void CudaStream::refuse_capture(const char* what) const {
  if (is_borrowed_ && is_being_captured())
    throw BadArgument(
        fmt::format("{} on a borrowed stream that its owner is capturing; do it before the capture "
                    "or after it",
                    what));
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
  cudaLaunchAttribute cooperative{};
  if (kernel.traits.is_cooperative) {
    cooperative.id = cudaLaunchAttributeCooperative;
    cooperative.val.cooperative = 1;
    config.attrs = &cooperative;
    config.numAttrs = 1;
  }
  check_parameters(kernel);
  KernelPointers pointers;
  pointers.set(kernel, args, &port);
  check(cudaLaunchKernelExC(&config, kernel.cuda, pointers.data()),
        [&] { return fmt::format("launching kernel '{}'", kernel.name); });
}

void CudaStream::copy(void* to, const void* from, std::size_t bytes) {
  const CurrentDevice current(device_.index());
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, enqueuing()),
        [&] { return fmt::format("copying {} bytes", bytes); });
}

void CudaStream::copy_rows(const CopyPart& copy) {
  const CurrentDevice current(device_.index());
  check(cudaMemcpy2DAsync(copy.to, copy.to_pitch, copy.from, copy.from_pitch, copy.bytes, copy.rows,
                          cudaMemcpyDefault, enqueuing()),
        [&] { return fmt::format("copying {} rows of {} bytes", copy.rows, copy.bytes); });
}

void CudaStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  const CurrentDevice current(device_.index());
  check(cudaMemsetAsync(to, value, bytes, enqueuing()),
        [&] { return fmt::format("filling {} bytes", bytes); });
}

void CudaStream::host(const std::string& name, std::function<void()> call) {
  const CurrentDevice current(device_.index());
  refuse_capture("a host call");
  auto host_call = std::make_unique<HostCall>(name, capture ? capture->graph : "", std::move(call),
                                              capture ? capture->faults : faults_.own());
  HostCall* const data = host_call.get();
  if (capture) {
    capture->calls.push_back(std::move(host_call));
    capture->is_watched = true;
  } else {
    while (!calls_.empty() && calls_.front()->has_ended()) {
      const auto ended = std::move(calls_.front());  // its destructor may enqueue here
      calls_.pop_front();
    }
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
  refuse_capture("synchronize");
  // Taken before the wait: objects kept for us during it may still be in use afterwards.
  auto kept = device_.take_kept(*this);
  check(cudaStreamSynchronize(stream_), "synchronizing a stream");
  is_busy_.store(is_lent_, std::memory_order_relaxed);
  faults_.collect();  // before the boxes kept for us are destroyed
  kept.clear();
  (void)std::exchange(calls_, {});  // their destructors may use this stream
  faults_.rethrow();
}

}  // namespace attacca::cuda
