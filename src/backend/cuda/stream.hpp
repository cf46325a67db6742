// stream.hpp: CUDA streams, our own or borrowed, and events.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/faults.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

class CudaEvent final : public graph::EventImpl {
 public:
  CudaEvent(const CudaDevice& device, bool keeps_time);
  ~CudaEvent() override;
  bool is_reached() override;
  std::chrono::duration<double> since(graph::EventImpl& start) override;
  cudaEvent_t get() const { return event_; }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

class CudaStream final : public graph::StreamImpl {
 public:
  /// Makes and owns a stream.
  explicit CudaStream(CudaDevice& device, int priority = 0);
  /// Another program's stream, which is neither changed nor destroyed.
  struct Borrowed {
    cudaStream_t stream;
  };
  CudaStream(CudaDevice& device, Borrowed borrowed);
  ~CudaStream() override;

  void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_rows(const graph::CopyPart& copy) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void host(const std::string& name, std::function<void()> call) override;
  void record(graph::EventImpl& event) override;
  void wait(graph::EventImpl& event) override;
  void synchronize() override;
  bool has_failed() override { return faults_.any(); }
  /// The caller may enqueue work unknown to us, so the stream counts as busy from then on.
  void* native() override;
  void* native_for_a_call() override { return enqueuing(); }

  /// For calls that enqueue nothing.
  cudaStream_t get() const { return stream_; }
  /// Also true for the legacy stream while a stream that waits for it is being captured.
  bool is_being_captured() const;
  /// Throws BadArgument where the owner of a borrowed stream is capturing it.
  void refuse_capture(const char* what) const;
  /// For a borrowed stream, which its borrowers need not synchronize. If its work has ended,
  /// releases everything kept for it.
  void settle_if_idle();
  /// For calls that enqueue work.
  cudaStream_t enqueuing() {
    if (!capture) is_busy_.store(true, std::memory_order_relaxed);
    return stream_;
  }
  /// Whether it may have work in flight. Thread-safe.
  bool is_busy() const { return is_busy_.load(std::memory_order_relaxed); }
  StreamFaults& faults() { return faults_; }

  /// A graph that captures this stream. It owns the host calls, which run many times.
  struct Capture {
    std::vector<std::unique_ptr<HostCall>>& calls;
    std::shared_ptr<FaultBox> faults;
    std::string graph;
    bool is_watched = false;  // something captured may fail
  };
  Capture* capture = nullptr;

 private:
  /// Lists a stream with its device while it lives.
  class Listed {
   public:
    explicit Listed(CudaStream& stream) : stream_(stream) { stream.device_.add_stream(stream); }
    ~Listed() { stream_.device_.remove_stream(stream_); }
    Listed(const Listed&) = delete;

   private:
    CudaStream& stream_;
  };

  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;
  bool is_borrowed_ = false;
  std::atomic<bool> is_busy_{false};
  bool is_lent_ = false;
  StreamFaults faults_;
  std::deque<std::unique_ptr<HostCall>> calls_;  // in order; ended ones are removed by later calls
  Listed listed_;
};

}  // namespace attacca::cuda
