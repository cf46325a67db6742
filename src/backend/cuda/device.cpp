// device.cpp: devices, memory and pools on CUDA.
#include "backend/cuda/device.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/cuda/check.hpp"
#include "backend/cuda/instance.hpp"
#include "backend/cuda/stream.hpp"
#include "core/counted.hpp"
#include "graph/parameters.hpp"

namespace attacca::cuda {

using namespace graph;

namespace {

class CudaPool final : public PoolImpl {
 public:
  explicit CudaPool(CudaDevice& device)
      : device_(device), state_(std::make_shared<State>(device.index())) {
    const CurrentDevice current(device.index());
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device.index()};
    check(cudaMemPoolCreate(&state_->pool, &properties), "creating a pool");
    // Keep freed memory: giving it back to the driver at every synchronize costs a stall.
    std::uint64_t threshold = ~std::uint64_t{0};
    check(cudaMemPoolSetAttribute(state_->pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  // The driver waits for frees that are under way, but not for memory that was never freed.
  ~CudaPool() override {
    if (!state_->in_use.empty()) device_.keep_while_busy(state_);
  }

  void* allocate(StreamImpl& stream, std::size_t bytes) override {
    const CurrentDevice current(device_.index());
    auto& cuda_stream = static_cast<CudaStream&>(stream);
    cuda_stream.refuse_capture("pool memory allocated");
    const cudaStream_t native = cuda_stream.enqueuing();
    const auto doing = [&] { return fmt::format("allocating {} bytes from a pool", bytes); };
    void* address = nullptr;
    check(cudaMallocFromPoolAsync(&address, std::max<std::size_t>(bytes, 1), state_->pool, native),
          doing);
    try {
      const std::lock_guard lock(state_->mutex);
      state_->in_use[address] = bytes;
    } catch (...) {
      (void)cudaFreeAsync(address, native);
      throw;
    }
    return address;
  }
  bool free(StreamImpl& stream, void* address) override {
    const CurrentDevice current(device_.index());
    auto& cuda_stream = static_cast<CudaStream&>(stream);
    cuda_stream.refuse_capture("pool memory freed");
    // Removed before the call, because after it another thread may be given the same address.
    auto used = [&] {
      const std::lock_guard lock(state_->mutex);
      return state_->in_use.extract(address);
    }();
    if (used.empty()) return false;
    const cudaError_t result = cudaFreeAsync(address, cuda_stream.enqueuing());
    if (result != cudaSuccess) {  // the memory is still in use
      const std::lock_guard lock(state_->mutex);
      state_->in_use.insert(std::move(used));
    }
    check(result, "freeing memory of a pool");
    return true;
  }
  std::size_t bytes_in_use() const override {
    const std::lock_guard lock(state_->mutex);
    std::size_t sum = 0;
    for (const auto& [address, bytes] : state_->in_use) sum += bytes;
    return sum;
  }
  std::size_t bytes_reserved() const override {
    const CurrentDevice current(device_.index());
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(state_->pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
    return bytes;
  }

 private:
  /// Outlives the pool while work that may use its memory is in flight.
  struct State {
    explicit State(int on) : device(on) {}
    ~State() {
      const CurrentDevice current(device, std::nothrow);
      for (const auto& [address, bytes] : in_use) (void)cudaFreeAsync(address, cudaStreamLegacy);
      if (pool) (void)cudaMemPoolDestroy(pool);
      (void)cudaGetLastError();
    }
    State(const State&) = delete;

    int device;
    cudaMemPool_t pool = nullptr;
    std::mutex mutex;
    std::map<void*, std::size_t> in_use;
  };
  CudaDevice& device_;
  std::shared_ptr<State> state_;
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
        fmt::format("no device cuda:{}: this machine has {}; use Device::best() or Device::host()",
                    index, counted(static_cast<std::uint64_t>(count), "usable GPU")));
  const std::lock_guard lock(mutex);
  auto& device = devices[index];
  if (!device) device = std::make_shared<CudaDevice>(index);
  return device;
}

CudaDevice::CudaDevice(int index) : index_(index) {
  const CurrentDevice current(index_);
  check(cudaDeviceGetStreamPriorityRange(&least_priority_, &greatest_priority_));
  check(cudaMalloc(&spare_byte_, 1));
}

void KernelPointers::set(const KernelInfo& kernel, const void* args,
                         attacca::detail::LaunchPort* port) {
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(args));
  two_[0] = bytes;
  two_[1] = port;
  same_bits_.clear();
  if (!kernel.parameters) return;
  for (const std::uint32_t offset : kernel.parameters->offsets)
    same_bits_.push_back(bytes + offset);
}

void check_parameters(const KernelInfo& kernel) {
  const attacca::detail::ParameterList* declared = kernel.parameters;
  if (!declared || declared->is_driver_function || declared->is_checked.load()) return;
  std::vector<std::size_t> sizes;
  for (std::size_t offset = 0, size = 0;; sizes.push_back(size)) {
    const cudaError_t result = cudaFuncGetParamInfo(kernel.cuda, sizes.size(), &offset, &size);
    if (result == cudaErrorInvalidValue) break;  // that was the last
    check(result, [&] { return fmt::format("reading the parameters of '{}'", kernel.name); });
  }
  (void)cudaGetLastError();
  if (!std::equal(sizes.begin(), sizes.end(), declared->sizes.begin(), declared->sizes.end()))
    throw BadArgument(
        fmt::format("CUDA kernel '{}' takes parameters of [{}] bytes and was declared with [{}]; "
                    "name the types of its declaration in cuda_kernel<…>",
                    kernel.name, fmt::join(sizes, ", "), fmt::join(declared->sizes, ", ")));
  declared->is_checked.store(true);
}

void CudaDevice::allow_shared_bytes(const KernelInfo& kernel, const Grid& grid) {
  constexpr std::size_t kPlainSharedBytes = 48 << 10;
  if (grid.shared_bytes <= kPlainSharedBytes) return;
  // The program that launched an adopted kernel first has already asked.
  if (is_driver_function(kernel)) return;
  shared_limits_.raise(kernel.cuda, grid.shared_bytes, [&](std::size_t bytes) {
    check(cudaFuncSetAttribute(kernel.cuda, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(bytes)),
          [&] {
            return fmt::format("kernel '{}' asks for {} bytes of shared memory per block",
                               kernel.name, bytes);
          });
  });
}

void CudaDevice::add_stream(CudaStream& stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.push_back({&stream, {}});
}

void CudaDevice::remove_stream(CudaStream& stream) noexcept {
  std::vector<std::shared_ptr<const void>> kept;  // destroyed after unlocking: it may own a stream
  const std::lock_guard lock(streams_mutex_);
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [&](const Listed& listed) { return listed.stream == &stream; });
  if (found == streams_.end()) return;
  kept = std::move(found->kept);
  streams_.erase(found);
}

std::vector<std::shared_ptr<const void>> CudaDevice::take_kept(CudaStream& stream) noexcept {
  const std::lock_guard lock(streams_mutex_);
  for (Listed& listed : streams_)
    if (listed.stream == &stream) return std::exchange(listed.kept, {});
  return {};
}

void CudaDevice::keep_while_busy(const std::shared_ptr<const void>& held) noexcept {
  const std::lock_guard lock(streams_mutex_);
  try {
    for (Listed& listed : streams_)
      if (listed.stream->is_busy()) listed.kept.push_back(held);
  } catch (const std::bad_alloc&) {  // no memory to keep it: wait instead
    const CurrentDevice current(index_, std::nothrow);
    (void)cudaDeviceSynchronize();
  }
}

bool CudaDevice::observe(std::shared_ptr<Observer> observer) {
  const std::lock_guard lock(observer_mutex_);
  observer_ = std::move(observer);
  return false;
}
std::shared_ptr<Observer> CudaDevice::observer() const {
  const std::lock_guard lock(observer_mutex_);
  return observer_;
}

std::string CudaDevice::name() const { return fmt::format("cuda:{}", index_); }

int CudaDevice::driver_priority(int priority) const {
  return std::clamp(-priority, greatest_priority_, least_priority_);
}

std::unique_ptr<StreamImpl> CudaDevice::make_stream(int priority) {
  const CurrentDevice current(index_);
  return std::make_unique<CudaStream>(*this, priority);
}
std::shared_ptr<StreamImpl> CudaDevice::borrow_stream(void* native) {
  const CurrentDevice current(index_);
  auto* const stream = static_cast<cudaStream_t>(native);
  if (stream == cudaStreamPerThread)
    throw BadArgument(
        "cudaStreamPerThread names another stream in each thread; borrow one made with "
        "cudaStreamCreate");
  int index = index_;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const bool is_of_one_device = stream && stream != cudaStreamLegacy;
  if (is_of_one_device) check(cudaStreamIsCapturing(stream, &status), "borrowing a stream");
  // A stream that is being captured answers no other question.
  if (is_of_one_device && status == cudaStreamCaptureStatusNone)
    check(cudaStreamGetDevice(stream, &index), "borrowing a stream");
  if (index != index_)
    throw BadArgument(fmt::format("a stream of cuda:{} borrowed for {}; use Device::cuda({})",
                                  index, name(), index));
  const auto borrowed = [&] {
    const std::lock_guard lock(borrowed_mutex_);
    auto& known = borrowed_[stream ? stream : cudaStreamLegacy];  // null is the legacy stream
    if (!known) known = std::make_shared<CudaStream>(*this, CudaStream::Borrowed{stream});
    return known;
  }();
  borrowed->settle_if_idle();  // unlocked: destructors it runs may borrow a stream
  return borrowed;
}
std::shared_ptr<EventImpl> CudaDevice::make_event(bool is_timed) {
  return std::make_shared<CudaEvent>(*this, is_timed);
}
std::unique_ptr<Instance> CudaDevice::instantiate(const GraphData& data, Target target) {
  const CurrentDevice current(index_);
  return std::make_unique<CudaInstance>(*this, data, target);
}
std::unique_ptr<PoolImpl> CudaDevice::make_pool() { return std::make_unique<CudaPool>(*this); }

void* CudaDevice::allocate(std::size_t bytes) {
  const CurrentDevice current(index_);
  void* address = nullptr;
  check(cudaMalloc(&address, std::max<std::size_t>(bytes, 1)),
        [&] { return fmt::format("allocating {} bytes on {}", bytes, name()); });
  return address;
}
void CudaDevice::free(void* address) noexcept {
  const CurrentDevice current(index_, std::nothrow);
  (void)cudaFree(address);
}

void* CudaDevice::allocate_shared(std::size_t bytes) {
  const CurrentDevice current(index_);
  void* address = nullptr;
  check(cudaHostAlloc(&address, std::max<std::size_t>(bytes, 1),
                      cudaHostAllocMapped | cudaHostAllocPortable),
        [&] { return fmt::format("allocating {} bytes of pinned memory", bytes); });
  return address;
}
void CudaDevice::free_shared(void* address) noexcept {
  const CurrentDevice current(index_, std::nothrow);
  (void)cudaFreeHost(address);
}

void CudaDevice::run_here(const std::function<void()>& work) {
  const CurrentDevice current(index_);
  work();
}

std::size_t CudaDevice::bytes_free() const {
  const CurrentDevice current(index_);
  std::size_t bytes = 0, total = 0;
  check(cudaMemGetInfo(&bytes, &total));
  return bytes;
}

void CudaDevice::copy_now(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentDevice current(index_);
  const auto doing = [&] { return fmt::format("copying {} bytes", bytes); };
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), doing);
  // A copy from pageable memory returns once the bytes are staged. The rest happens on the legacy
  // stream, for which our streams do not wait.
  check(cudaStreamSynchronize(cudaStreamLegacy), doing);
}

void CudaDevice::peek(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const CurrentDevice current(index_);
  const auto doing = [&] { return fmt::format("looking at {} bytes", bytes); };
  // The legacy stream would wait for kernels on streams made outside attacca; this one does not.
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, cudaStreamPerThread), doing);
  check(cudaStreamSynchronize(cudaStreamPerThread), doing);
}

void CudaDevice::set_nested_limits(std::size_t pending_launches, std::size_t stack_bytes) {
  const CurrentDevice current(index_);
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
