// check.cpp: the words for a CUDA error, and the CUDA runtime behind CurrentDevice.
#include "backend/cuda/check.hpp"

#include <fmt/core.h>

#include <string_view>

#include "backend/cuda/current_device.hpp"

namespace attacca::cuda {

std::string error_words(cudaError_t result) {
  return fmt::format("{} ({})", cudaGetErrorName(result), cudaGetErrorString(result));
}

std::string take_error(cudaError_t result) {
  (void)cudaGetLastError();
  return error_words(result);
}

void fail(cudaError_t result, const std::string& doing, std::source_location where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);
  throw DeviceError(fmt::format("{}{}{} at {}:{}", doing, doing.empty() ? "" : ": ",
                                take_error(result), file, where.line()));
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
