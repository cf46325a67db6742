// The few driver (libcuda) and management (libnvidia-ml) functions doctor needs, found at run time:
// their headers may be missing and a host build must not link them.
#include "instruments/gpu_driver.hpp"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>

namespace attacca::instruments {
namespace {

// Values of CUdevice_attribute, part of the driver's stable interface.
enum Attribute : int {
  kMultiprocessors = 16,
  kMemoryClockKilohertz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kComputeMajor = 75,
  kComputeMinor = 76,
};

// An opened library. Left open: a driver may not survive being unloaded, and the process ends soon.
class Shared {
 public:
  explicit Shared(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (handle_ == nullptr) handle_ = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    }
  }
  explicit operator bool() const { return handle_ != nullptr; }

  // Null where the library has no such function.
  template <class Function>
  Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_ = nullptr;
};

std::string management_version() {
  const Shared library{"libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"};
  const auto start = library.find<int()>("nvmlInit_v2");
  const auto stop = library.find<int()>("nvmlShutdown");
  const auto version = library.find<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (start == nullptr || stop == nullptr || version == nullptr || start() != 0) return {};
  std::array<char, 96> text{};
  const int result = version(text.data(), static_cast<unsigned>(text.size()));
  stop();
  return result == 0 ? std::string(text.data()) : std::string();
}

}  // namespace

CudaDriver ask_driver(std::vector<Gpu>& gpus) {
  CudaDriver driver;
  const Shared library{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"};
  if (!library) {
    driver.error = "NVIDIA's driver library, libcuda.so.1, is not on this machine";
    return driver;
  }
  driver.is_loaded = true;
  const auto start = library.find<int(unsigned)>("cuInit");
  const auto driver_version = library.find<int(int*)>("cuDriverGetVersion");
  const auto device_count = library.find<int(int*)>("cuDeviceGetCount");
  const auto device_get = library.find<int(int*, int)>("cuDeviceGet");
  const auto device_name = library.find<int(char*, int, int)>("cuDeviceGetName");
  const auto device_memory = library.find<int(std::size_t*, int)>("cuDeviceTotalMem_v2");
  const auto device_attribute = library.find<int(int*, int, int)>("cuDeviceGetAttribute");
  const auto error_name = library.find<int(int, const char**)>("cuGetErrorName");
  if (start == nullptr || driver_version == nullptr || device_count == nullptr ||
      device_get == nullptr || device_name == nullptr || device_memory == nullptr ||
      device_attribute == nullptr) {
    driver.error = "libcuda.so.1 is not a driver this program knows";
    return driver;
  }
  driver.version = management_version();
  int version = 0;
  if (driver_version(&version) == 0) driver.cuda_version = cuda_version_text(version);
  if (const int result = start(0); result != 0) {
    const char* name = nullptr;
    if (error_name != nullptr) error_name(result, &name);
    driver.error = "the driver does not start: " +
                   (name != nullptr ? std::string(name) : std::to_string(result));
    return driver;
  }
  int count = 0;
  if (device_count(&count) != 0 || count == 0) {
    driver.error = "the driver sees no GPU";
    return driver;
  }
  for (int index = 0; index < count; ++index) {
    int device = 0;
    if (device_get(&device, index) != 0) continue;
    const auto attribute = [&](Attribute which) {
      int value = 0;
      return device_attribute(&value, which, device) == 0 ? value : 0;
    };
    Gpu gpu;
    std::array<char, 256> name{};
    if (device_name(name.data(), static_cast<int>(name.size()), device) == 0)
      gpu.name = name.data();
    std::size_t bytes = 0;
    if (device_memory(&bytes, device) == 0) gpu.memory_bytes = bytes;
    gpu.multiprocessors = attribute(kMultiprocessors);
    gpu.compute_major = attribute(kComputeMajor);
    gpu.compute_minor = attribute(kComputeMinor);
    gpu.l2_bytes = static_cast<std::uint64_t>(attribute(kL2Bytes));
    // Two transfers per clock, each as wide as the bus.
    gpu.peak_bytes_per_second =
        2e3 * attribute(kMemoryClockKilohertz) * attribute(kMemoryBusBits) / 8;
    gpus.push_back(gpu);
  }
  return driver;
}

}  // namespace attacca::instruments
