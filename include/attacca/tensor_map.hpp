// tensor_map.hpp: tensor maps for TMA, which copies a box of a tensor in one instruction. Kernels
// read the map from the device's memory. For GPUs of compute capability 9.0 and later.
#pragma once

#include <attacca/device.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

namespace attacca {

/// Opaque. It must lie in the device's memory when it is used.
struct alignas(64) TensorMap {
  std::byte bytes[128];
};

struct TensorDimension {
  std::uint64_t size;    // in elements
  std::uint64_t stride;  // in bytes, a multiple of 16; of the first one: those of an element, 2
  std::uint32_t box;     // elements of a box, at most 256; of the first one 64 or 128 bytes
};

/// A map of 16-bit elements that are contiguous in the first dimension. In shared memory, rows of a
/// box are 64 or 128 bytes, swizzled over as many for warpgroup MMA (wgmma). Elements outside of
/// the tensor are zeros. Throws BadArgument where the driver has no such map, DeviceError without
/// such a GPU.
TensorMap tensor_map(const Device& device, const void* data,
                     std::span<const TensorDimension> dimensions);

}  // namespace attacca
