// device.hpp: a CUDA GPU as a device.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "backend/cuda/faults.hpp"
#include "graph/executor.hpp"

namespace attacca::cuda {

int device_count();
/// The same object for the same index. Throws where there is no such GPU.
std::shared_ptr<graph::DeviceImpl> get_device(int index);

/// Asks the driver for the shared memory of a block, where that is more than every kernel has.
void allow_shared_bytes(const KernelInfo& kernel, const Grid& grid);

class CudaDevice final : public graph::DeviceImpl, public std::enable_shared_from_this<CudaDevice> {
 public:
  explicit CudaDevice(int index);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string name() const override;
  std::unique_ptr<graph::StreamImpl> make_stream() override;
  std::shared_ptr<graph::EventImpl> make_event() override;
  std::unique_ptr<graph::Instance> instantiate(const graph::GraphData& data,
                                               graph::Target target) override;
  std::unique_ptr<graph::PoolImpl> make_pool() override;
  void* allocate(std::size_t bytes) override;
  void free(void* address) noexcept override;
  void* allocate_shared(std::size_t bytes) override;
  void free_shared(void* address) noexcept override;
  std::size_t bytes_free() const override;
  void copy_now(void* to, const void* from, std::size_t bytes) override;
  Residency residency(const KernelInfo& kernel, const Grid& grid) override;
  std::uint64_t blocks_at_once(const KernelInfo& kernel, const Grid& grid) override;
  L2Cache l2_cache() override;
  void set_aside_l2(std::size_t bytes) override;
  L2Window l2_window(graph::StreamImpl& stream) override;
  void set_l2_window(graph::StreamImpl& stream, const L2Window& window) override;
  void reset_l2(graph::StreamImpl& stream) override;
  int compute_capability() const override;
  TensorMap tensor_map(const void* data, std::span<const TensorDimension> dimensions) override;
  bool observe(std::shared_ptr<graph::Observer>) override { return false; }
  void set_nested_limits(std::size_t pending_launches, std::size_t stack_bytes) override;

  int index() const { return index_; }
  /// Makes this the calling thread's device.
  void activate() const;
  FaultMemory& fault_memory() { return fault_memory_; }
  std::size_t spawn_limit() const { return spawn_limit_.load(); }
  /// Boxes of the graphs that device code launches: nobody knows from which stream it will.
  void add_device_graph(const std::shared_ptr<FaultBox>& faults);
  std::vector<std::shared_ptr<FaultBox>> device_graphs();
  /// Device memory whose content nobody reads.
  void* spare_byte() const { return spare_byte_; }
  /// Driver priority for ours: higher runs first.
  int driver_priority(int priority) const;

 private:
  int index_;
  int least_priority_ = 0;
  int greatest_priority_ = 0;
  std::atomic<std::size_t> spawn_limit_{2048};
  FaultMemory fault_memory_;
  std::mutex blocks_at_once_mutex_;
  std::map<std::tuple<const void*, std::uint64_t, unsigned>, std::uint64_t>
      blocks_at_once_;  // by kernel, threads and shared bytes
  std::mutex device_graphs_mutex_;
  std::vector<std::weak_ptr<FaultBox>> device_graphs_;
  void* spare_byte_ = nullptr;  // never freed: devices live as long as the process
};

}  // namespace attacca::cuda
