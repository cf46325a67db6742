// check.cpp: the words for a CUDA error, and the CUDA runtime behind CurrentDevice.
#include "backend/cuda/check.hpp"

#include <fmt/core.h>

#include <string_view>

#include "backend/cuda/current_device.hpp"
#include "core/device_events.hpp"

namespace attacca::cuda {

std::string error_words(cudaError_t result) {
  return fmt::format("{} ({})", cudaGetErrorName(result), cudaGetErrorString(result));
}

std::string take_error(cudaError_t result) {
  (void)cudaGetLastError();
  return error_words(result);
}

namespace {

/// Whether every later call of this process fails too.
bool is_for_good(cudaError_t result) {
  switch (result) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorContained:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsClientTerminated:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

void fail(cudaError_t result, const std::string& doing, std::source_location where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);
  const std::string words = fmt::format("{}{}{} at {}:{}", doing, doing.empty() ? "" : ": ",
                                        take_error(result), file, where.line());
  if (is_for_good(result)) core::Listener<core::DeviceFailed>::tell({words, true});
  throw DeviceError(words);
}

int CudaRuntime::current() noexcept {
  int index = -1;
  if (cudaGetDevice(&index) == cudaSuccess) return index;
  (void)cudaGetLastError();
  return -1;
}

void CudaRuntime::select(int index) {
  check(cudaSetDevice(index), [&] { return fmt::format("selecting cuda:{}", index); });
}

void CudaRuntime::select_quietly(int index) noexcept {
  if (cudaSetDevice(index) != cudaSuccess) (void)cudaGetLastError();
}

}  // namespace attacca::cuda
