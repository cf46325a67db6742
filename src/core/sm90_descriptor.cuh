// sm90_descriptor.cuh: descriptors of wgmma's operands in shared memory. A row of an operand is 128
// bytes, with its 16-byte pieces swizzled as TMA does it: piece p of row r lies at p ^ (r % 8).
// Eight rows begin at a multiple of 1024 bytes.
#pragma once

#include <cstdint>

namespace attacca::sm90 {

namespace detail {
__device__ inline std::uint64_t swizzled_descriptor(const void* matrix, std::uint64_t leading) {
  constexpr std::uint64_t kSwizzled = std::uint64_t{1} << 62;           // 128-byte swizzle
  constexpr std::uint64_t kEightRows = std::uint64_t{1024 / 16} << 32;  // stride of eight rows
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(matrix));
  return kSwizzled | kEightRows | leading << 16 | (address & 0x3ffffu) >> 4;
}
}  // namespace detail

/// A matrix whose rows are multiplied. 16 columns further is 32 bytes further: add 2.
__device__ inline std::uint64_t smem_descriptor(const void* matrix) {
  return detail::swizzled_descriptor(matrix, 1);
}
/// A matrix of 16-bit numbers whose columns are multiplied (MN-major). It is cut into blocks of 64
/// columns, `kBlockBytes` apart. 16 rows further is 2048 bytes further: add 128.
template <unsigned kBlockBytes>
__device__ inline std::uint64_t column_descriptor(const void* matrix) {
  return detail::swizzled_descriptor(matrix, kBlockBytes / 16);
}

}  // namespace attacca::sm90
