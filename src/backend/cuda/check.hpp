// check.hpp: `check`, which every CUDA call goes through.
#pragma once

#include <cuda_runtime.h>
#include <attacca/error.hpp>

#include <concepts>
#include <source_location>
#include <string>

namespace attacca::cuda {

/// "cudaErrorInvalidValue (invalid argument)".
std::string error_words(cudaError_t result);
/// Also clears the error, so that the next call starts clean.
std::string take_error(cudaError_t result);

/// Throws DeviceError, or what a listener says that knows more (core/device_events.hpp).
[[noreturn]] void fail(cudaError_t result, const std::string& doing, std::source_location where);

/// Throws DeviceError unless `result` is success. `doing` returns words for the attempt. It is only
/// called on failure, because formatting them costs as much as a driver call.
template <std::invocable F>
void check(cudaError_t result, F doing,
           std::source_location where = std::source_location::current()) {
  if (result != cudaSuccess) [[unlikely]]
    fail(result, doing(), where);
}
inline void check(cudaError_t result, const char* doing = "",
                  std::source_location where = std::source_location::current()) {
  if (result != cudaSuccess) [[unlikely]]
    fail(result, doing, where);
}

/// Frees device memory. For destructors.
struct FreeDevice {
  void operator()(void* address) const noexcept { (void)cudaFree(address); }
};

}  // namespace attacca::cuda
