// tensor_map.cpp: maps of tensors for TMA, which only the driver can make.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <fmt/core.h>

#include <cstring>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device.hpp"

namespace attacca::cuda {

namespace {

constexpr std::size_t kMostDimensions = 5;
static_assert(sizeof(CUtensorMap) == sizeof(TensorMap));

PFN_cuTensorMapEncodeTiled_v12000 encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                         cudaEnableDefault, &found),
        "asking the driver for tensor maps");
  if (found != cudaDriverEntryPointSuccess)
    throw DeviceError("the driver has no tensor maps; install one for CUDA 12 or later");
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

}  // namespace

int CudaDevice::compute_capability() const {
  const auto ask = [&](cudaDeviceAttr attribute) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, attribute, index_), "asking a GPU what it can do");
    return value;
  };
  return ask(cudaDevAttrComputeCapabilityMajor) * 10 + ask(cudaDevAttrComputeCapabilityMinor);
}

TensorMap CudaDevice::tensor_map(const void* data, std::span<const TensorDimension> dimensions) {
  if (compute_capability() < 90) return DeviceImpl::tensor_map(data, dimensions);
  if (dimensions.empty() || dimensions.size() > kMostDimensions)
    throw BadArgument(fmt::format("a tensor map of {} dimensions; use 1 to {}", dimensions.size(),
                                  kMostDimensions));
  const CurrentDevice current(index_);
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = encoder();
  cuuint64_t sizes[kMostDimensions];
  cuuint64_t strides[kMostDimensions];  // of all but the first
  cuuint32_t boxes[kMostDimensions];
  const cuuint32_t steps[kMostDimensions] = {1, 1, 1, 1, 1};
  std::string shape;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    sizes[i] = dimensions[i].size;
    boxes[i] = dimensions[i].box;
    if (i != 0) strides[i - 1] = dimensions[i].stride;
    shape += fmt::format("{}{} (stride {}, box {})", i == 0 ? "" : " x ", dimensions[i].size,
                         dimensions[i].stride, dimensions[i].box);
  }
  const bool is_narrow = boxes[0] * dimensions[0].stride <= 64;
  CUtensorMap map;
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(dimensions.size()),
             const_cast<void*>(data), sizes, strides, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             is_narrow ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw BadArgument(
        fmt::format("the driver makes no map of a tensor at {} of {}: error {}; see "
                    "tensor_map.hpp for what it can be",
                    data, shape, static_cast<int>(result)));
  TensorMap opaque;
  std::memcpy(&opaque, &map, sizeof opaque);
  return opaque;
}

}  // namespace attacca::cuda
