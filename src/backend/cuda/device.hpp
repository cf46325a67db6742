// device.hpp: a CUDA GPU as a device: its streams, memory and instances, and the limits of its
// kernels.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "backend/cuda/current_device.hpp"
#include "backend/cuda/faults.hpp"
#include "backend/cuda/raised_limits.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

int device_count();
/// Returns one object per index. Throws where there is no such GPU.
std::shared_ptr<graph::DeviceImpl> get_device(int index);

class CudaStream;

/// One pointer for each parameter of a kernel: to its argument struct and its port, or to each
/// parameter of a plain CUDA kernel.
class KernelPointers {
 public:
  void set(const KernelInfo& kernel, const void* args, attacca::detail::LaunchPort* port);
  void** data() { return same_bits_.empty() ? two_ : same_bits_.data(); }

 private:
  void* two_[2] = {};
  std::vector<void*> same_bits_;
};

/// Throws BadArgument where a plain CUDA kernel was declared with parameters that it does not take.
void check_parameters(const KernelInfo& kernel);

class CudaDevice final : public graph::DeviceImpl, public std::enable_shared_from_this<CudaDevice> {
 public:
  explicit CudaDevice(int index);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override;
  std::unique_ptr<graph::StreamImpl> make_stream(int priority) override;
  std::shared_ptr<graph::StreamImpl> borrow_stream(void* native) override;
  std::shared_ptr<graph::EventImpl> make_event(bool is_timed) override;
  std::unique_ptr<graph::Instance> instantiate(const graph::GraphData& data,
                                               graph::Target target) override;
  void adopt(void* native_graph, Graph& into) override;
  std::unique_ptr<graph::PoolImpl> make_pool() override;
  void* allocate(std::size_t bytes) override;
  void free(void* address) noexcept override;
  void* allocate_shared(std::size_t bytes) override;
  void free_shared(void* address) noexcept override;
  std::size_t bytes_free() const override;
  void run_here(const std::function<void()>& work) override;
  void copy_now(void* to, const void* from, std::size_t bytes) override;
  void peek(void* to, const void* from, std::size_t bytes) override;
  unsigned processors() const override;
  Residency residency(const KernelInfo& kernel, const Grid& grid) override;
  std::uint64_t blocks_at_once(const KernelInfo& kernel, const Grid& grid) override;
  L2Cache l2_cache() override;
  void set_aside_l2(std::size_t bytes) override;
  L2Window l2_window(graph::StreamImpl& stream) override;
  void set_l2_window(graph::StreamImpl& stream, const L2Window& window) override;
  void reset_l2(graph::StreamImpl& stream) override;
  int compute_capability() const override;
  TensorMap tensor_map(const void* data, std::span<const TensorDimension> dimensions) override;
  bool observe(std::shared_ptr<graph::Observer> observer) override;
  void set_nested_limits(std::size_t pending_launches, std::size_t stack_bytes) override;

  int index() const { return index_; }
  /// Null where there is none. Thread-safe.
  std::shared_ptr<graph::Observer> observer() const override;
  /// Asks the driver to allow the kernel that much shared memory per block, where it needs asking.
  /// The limit is never lowered. Thread-safe. REQUIRES: this is the current device.
  void allow_shared_bytes(const KernelInfo& kernel, const Grid& grid);
  FaultLedger& faults() { return faults_; }

  void keep_while_busy(const std::shared_ptr<const void>& held) noexcept override;
  void add_stream(CudaStream& stream);
  void remove_stream(CudaStream& stream) noexcept;
  /// Everything kept for a stream so far.
  std::vector<std::shared_ptr<const void>> take_kept(CudaStream& stream) noexcept;
  /// Device memory that nothing reads.
  void* spare_byte() const { return spare_byte_; }
  /// The driver's priority for one of ours, where higher runs first.
  int driver_priority(int priority) const;

 private:
  int index_;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  std::atomic<std::size_t> spawn_limit_{2048};
  std::mutex blocks_at_once_mutex_;
  std::map<std::tuple<const void*, std::uint64_t, unsigned>, std::uint64_t>
      blocks_at_once_;  // by kernel, threads and shared bytes
  FaultLedger faults_{spawn_limit_};
  RaisedLimits shared_limits_;
  struct Listed {
    CudaStream* stream;
    std::vector<std::shared_ptr<const void>> kept;
  };
  std::mutex streams_mutex_;
  std::vector<Listed> streams_;
  mutable std::mutex observer_mutex_;
  std::shared_ptr<graph::Observer> observer_;
  std::mutex borrowed_mutex_;
  /// Kept, because enqueued work may end, and fail, after the BorrowedStream is gone.
  std::map<cudaStream_t, std::shared_ptr<CudaStream>> borrowed_;
  void* spare_byte_ = nullptr;  // never freed: devices live as long as the process
};

}  // namespace attacca::cuda
