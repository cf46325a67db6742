// tensor_map.cpp: asks the device for a tensor map, and refuses on devices without TMA.
#include <attacca/error.hpp>
#include <attacca/tensor_map.hpp>

#include "graph/executor.hpp"

namespace attacca {

TensorMap graph::DeviceImpl::tensor_map(const void*, std::span<const TensorDimension>) {
  throw DeviceError(name() + " has no tensor maps; use a GPU of compute capability 9.0 or later");
}

TensorMap tensor_map(const Device& device, const void* data,
                     std::span<const TensorDimension> dimensions) {
  return graph::impl_of(device).tensor_map(data, dimensions);
}

}  // namespace attacca
