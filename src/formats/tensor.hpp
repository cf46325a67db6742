// tensor.hpp: a tensor of a model's file: its name, type and shape, and where its bytes are. It
// owns no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/matrix.hpp"

namespace attacca::formats {

/// A view: the file that was read keeps `data` alive.
struct Tensor {
  std::string name;
  kernels::TensorType type = kernels::TensorType::f32;
  std::vector<std::uint64_t> shape;  // outermost first: [rows, columns]
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;

  std::uint64_t count() const;
};

/// The product of a shape's sizes; none if it exceeds 64 bits.
std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape);

/// Bytes of a tensor; none if they exceed 64 bits or a row is not whole blocks.
std::optional<std::uint64_t> tensor_bytes(kernels::TensorType type,
                                          std::span<const std::uint64_t> shape);

/// [512, 64]
std::string shape_text(std::span<const std::uint64_t> shape);

/// All leading dimensions are rows. Throws if rows or columns exceed 32 bits.
kernels::Matrix matrix_of(const Tensor& tensor);

/// The elements of an F32, F16 or BF16 tensor, such as a norm or a bias. Throws for other types.
std::vector<float> to_floats(const Tensor& tensor);

}  // namespace attacca::formats
