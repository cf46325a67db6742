// tensor.cpp: computes sizes of tensors without overflow, and converts small tensors to floats.
#include "formats/tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <attacca/error.hpp>

#include <bit>
#include <cstring>
#include <limits>

#include "core/in_quotes.hpp"

namespace attacca::formats {

using kernels::TensorType;

namespace {

float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 31u;
  const std::uint32_t fraction = half & 1023u;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -size : size;
  }
  const std::uint32_t wide_exponent = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

}  // namespace

std::uint64_t Tensor::count() const { return element_count(shape).value_or(0); }

std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) {
  std::uint64_t count = 1;
  for (const std::uint64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count)) return std::nullopt;
  return count;
}

std::optional<std::uint64_t> tensor_bytes(TensorType type, std::span<const std::uint64_t> shape) {
  const kernels::BlockShape block = kernels::block_shape(type);
  const std::optional<std::uint64_t> count = element_count(shape);
  const std::uint64_t columns = shape.empty() ? 1 : shape.back();
  std::uint64_t bytes = 0;
  if (!count || columns % block.elements != 0 ||
      __builtin_mul_overflow(*count / block.elements, block.bytes, &bytes))
    return std::nullopt;
  return bytes;
}

std::string shape_text(std::span<const std::uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

kernels::Matrix matrix_of(const Tensor& tensor) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
  const std::uint64_t rows = columns == 0 ? 0 : tensor.count() / columns;
  if (rows > kMost || columns > kMost)
    throw BadArgument(
        fmt::format("tensor {} has shape {}; a matrix has at most {} rows and columns",
                    in_quotes(tensor.name), shape_text(tensor.shape), kMost));
  return {tensor.data, tensor.type, static_cast<std::uint32_t>(rows),
          static_cast<std::uint32_t>(columns)};
}

std::vector<float> to_floats(const Tensor& tensor) {
  std::vector<float> floats(tensor.count());
  const auto convert = [&](auto&& as_float) {
    for (std::size_t index = 0; index < floats.size(); ++index) {
      std::uint16_t bits;
      std::memcpy(&bits, tensor.data + index * sizeof bits, sizeof bits);
      floats[index] = as_float(bits);
    }
  };
  switch (tensor.type) {
    case TensorType::f32:
      if (!floats.empty()) std::memcpy(floats.data(), tensor.data, tensor.bytes);
      return floats;
    case TensorType::f16:
      convert(float_of_half);
      return floats;
    case TensorType::bf16:
      convert([](std::uint16_t bits) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      });
      return floats;
    default:
      throw BadArgument(fmt::format("tensor {} is {}; F32, F16 or BF16 is needed here",
                                    in_quotes(tensor.name), kernels::type_name(tensor.type)));
  }
}

}  // namespace attacca::formats
