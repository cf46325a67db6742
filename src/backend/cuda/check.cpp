// check.cpp: see check.hpp.
#include "backend/cuda/check.hpp"

#include <fmt/format.h>

#include <string_view>

namespace attacca::cuda {

std::string take_error(cudaError_t result) {
  (void)cudaGetLastError();
  return fmt::format("{} ({})", cudaGetErrorName(result), cudaGetErrorString(result));
}

void fail(cudaError_t result, const std::string& doing, std::source_location where) {
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);
  throw DeviceError(fmt::format("{}{}{} at {}:{}", doing, doing.empty() ? "" : ": ",
                                take_error(result), file, where.line()));
}

}  // namespace attacca::cuda
