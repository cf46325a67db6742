// check.hpp: the one function every CUDA call goes through.
#pragma once

#include <attacca/error.hpp>
#include <cuda_runtime.h>

#include <source_location>
#include <string>

namespace attacca::cuda {

/// "cudaErrorInvalidValue (invalid argument)". Clears the error, so that the next call starts clean.
std::string take_error(cudaError_t result);

/// Throws DeviceError unless `result` is success. `doing` says what was attempted.
void check(cudaError_t result, const std::string& doing = {},
           std::source_location where = std::source_location::current());

}  // namespace attacca::cuda
