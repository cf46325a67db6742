// device.cpp: devices, memory and pools on CUDA.
#include "backend/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "backend/cuda/check.hpp"
#include "backend/cuda/instance.hpp"
#include "backend/cuda/stream.hpp"

namespace attacca::cuda {

using namespace graph;

namespace {

class CudaPool final : public PoolImpl {
 public:
  explicit CudaPool(const CudaDevice& device) {
    device.activate();
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device.index()};
    check(cudaMemPoolCreate(&pool_, &properties), "creating a pool");
    // Keep what was freed: giving it back to the driver at every synchronize costs a stall.
    std::uint64_t threshold = ~std::uint64_t{0};
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  ~CudaPool() override { (void)cudaMemPoolDestroy(pool_); }

  void* allocate(StreamImpl& stream, std::size_t bytes) override {
    void* address = nullptr;
    check(cudaMallocFromPoolAsync(&address, std::max<std::size_t>(bytes, 1), pool_, native(stream)),
          [&] { return fmt::format("allocating {} bytes from a pool", bytes); });
    const std::lock_guard lock(mutex_);
    in_use_[address] = bytes;
    return address;
  }
  bool free(StreamImpl& stream, void* address) override {
    {
      const std::lock_guard lock(mutex_);
      if (in_use_.erase(address) == 0) return false;
    }
    check(cudaFreeAsync(address, native(stream)));
    return true;
  }
  std::size_t bytes_in_use() const override {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [address, bytes] : in_use_) sum += bytes;
    return sum;
  }
  std::size_t bytes_reserved() const override {
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }

 private:
  static cudaStream_t native(StreamImpl& stream) {
    return static_cast<cudaStream_t>(stream.native());
  }
  cudaMemPool_t pool_ = nullptr;
  mutable std::mutex mutex_;
  std::map<void*, std::size_t> in_use_;
};

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return count;
}

std::shared_ptr<DeviceImpl> get_device(int index) {
  static std::mutex mutex;
  static auto& devices = *new std::map<int, std::shared_ptr<CudaDevice>>;  // outlives the runtime
  const int count = device_count();
  if (index < 0 || index >= count)
    throw BadArgument(
        fmt::format("no device cuda:{}: this machine has {} usable GPU{}; use "
                    "Device::best() or Device::host()",
                    index, count, count == 1 ? "" : "s"));
  const std::lock_guard lock(mutex);
  auto& device = devices[index];
  if (!device) device = std::make_shared<CudaDevice>(index);
  return device;
}

CudaDevice::CudaDevice(int index) : index_(index) {
  activate();
  check(cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_));
  check(cudaMalloc(&spare_byte_, 1));
}

void allow_shared_bytes(const KernelInfo& kernel, const Grid& grid) {
  constexpr std::size_t kPlainSharedBytes = 48 << 10;
  if (grid.shared_bytes <= kPlainSharedBytes) return;
  check(cudaFuncSetAttribute(kernel.cuda, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(grid.shared_bytes)),
        [&] {
          return fmt::format("kernel '{}' asks for {} bytes of shared memory per block",
                             kernel.name, grid.shared_bytes);
        });
}

void CudaDevice::add_device_graph(const std::shared_ptr<FaultBox>& faults) {
  const std::lock_guard lock(device_graphs_mutex_);
  std::erase_if(device_graphs_, [](const auto& box) { return box.expired(); });
  device_graphs_.push_back(faults);
}

std::vector<std::shared_ptr<FaultBox>> CudaDevice::device_graphs() {
  const std::lock_guard lock(device_graphs_mutex_);
  std::vector<std::shared_ptr<FaultBox>> alive;
  for (const auto& box : device_graphs_)
    if (auto faults = box.lock()) alive.push_back(std::move(faults));
  return alive;
}

std::string CudaDevice::name() const { return fmt::format("cuda:{}", index_); }

void CudaDevice::activate() const {
  check(cudaSetDevice(index_), [&] { return fmt::format("selecting cuda:{}", index_); });
}

int CudaDevice::driver_priority(int priority) const {
  return std::clamp(-priority, greatest_priority_, least_priority_);
}

std::unique_ptr<StreamImpl> CudaDevice::make_stream() {
  activate();
  return std::make_unique<CudaStream>(*this);
}
std::shared_ptr<EventImpl> CudaDevice::make_event() {
  activate();
  return std::make_shared<CudaEvent>();
}
std::unique_ptr<Instance> CudaDevice::instantiate(const GraphData& data, Target target) {
  activate();
  return std::make_unique<CudaInstance>(*this, data, target);
}
std::unique_ptr<PoolImpl> CudaDevice::make_pool() { return std::make_unique<CudaPool>(*this); }

void* CudaDevice::allocate(std::size_t bytes) {
  activate();
  void* address = nullptr;
  check(cudaMalloc(&address, std::max<std::size_t>(bytes, 1)),
        [&] { return fmt::format("allocating {} bytes on {}", bytes, name()); });
  return address;
}
void CudaDevice::free(void* address) noexcept { (void)cudaFree(address); }

void* CudaDevice::allocate_shared(std::size_t bytes) {
  activate();
  void* address = nullptr;
  check(cudaHostAlloc(&address, std::max<std::size_t>(bytes, 1),
                      cudaHostAllocMapped | cudaHostAllocPortable),
        [&] { return fmt::format("allocating {} bytes of pinned memory", bytes); });
  return address;
}
void CudaDevice::free_shared(void* address) noexcept { (void)cudaFreeHost(address); }

std::size_t CudaDevice::bytes_free() const {
  activate();
  std::size_t bytes = 0, total = 0;
  check(cudaMemGetInfo(&bytes, &total));
  return bytes;
}

void CudaDevice::copy_now(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  activate();
  const auto doing = [&] { return fmt::format("copying {} bytes", bytes); };
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), doing);
  // From pageable memory it returns once the bytes are staged, and our streams do not wait for the
  // legacy stream, where the rest of the copy happens.
  check(cudaStreamSynchronize(cudaStreamLegacy), doing);
}

void CudaDevice::set_nested_limits(std::size_t pending_launches, std::size_t stack_bytes) {
  activate();
  check(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, pending_launches), [&] {
    return fmt::format(
        "setting {} pending nested launches on {}; set limits before the first launch",
        pending_launches, name());
  });
  spawn_limit_ = pending_launches;
  if (stack_bytes != 0)
    check(cudaDeviceSetLimit(cudaLimitStackSize, stack_bytes), [&] {
      return fmt::format("setting a stack of {} bytes per thread on {}; ask for less", stack_bytes,
                         name());
    });
}

}  // namespace attacca::cuda
