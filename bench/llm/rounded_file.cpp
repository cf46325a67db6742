// rounded_file.cpp: rounds the elements of matrices, block by block.
#include "llm/rounded_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/quantization.hpp"
#include "model/dequantized.hpp"

namespace bench {

namespace kernels = attacca::kernels;
using attacca::formats::Tensor;
using kernels::TensorType;

namespace {

/// Writes the bytes of one block.
class BlockWriter {
 public:
  explicit BlockWriter(std::byte* to) : to_(to) {}
  void half(float value) { word(kernels::half_of_float(value)); }
  void word(std::uint16_t word) {
    byte(word & 255u);
    byte(word >> 8u);
  }
  void byte(unsigned byte) { *to_++ = static_cast<std::byte>(byte); }

 private:
  std::byte* to_;
};

/// The value that a file will have for this one.
float as_half(float value) { return kernels::float_of_half(kernels::half_of_float(value)); }

/// The nearest multiple of `scale` from `least` to `most`, in units of it.
int steps(float value, float scale, int least, int most) {
  if (scale == 0) return 0;
  return std::clamp(static_cast<int>(std::lround(value / scale)), least, most);
}

/// Rounds the elements of one block.
void round_block(TensorType type, std::span<const float> x, std::byte* to) {
  BlockWriter out(to);
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  const float size = std::max(std::abs(*least), std::abs(*most));
  const auto put_nibbles = [&](auto&& q) {
    for (std::size_t i = 0; i < 16; ++i)
      out.byte(static_cast<unsigned>(q(x[i])) | static_cast<unsigned>(q(x[i + 16])) << 4);
  };
  if (type == TensorType::bf16) {
    out.word(kernels::bfloat_of_float(x[0]));
  } else if (type == TensorType::f16) {
    out.half(x[0]);
  } else if (type == TensorType::q8_0) {
    const float scale = as_half(size / 127);
    out.half(scale);
    for (const float value : x) out.byte(static_cast<std::uint8_t>(steps(value, scale, -127, 127)));
  } else if (type == TensorType::q4_0) {
    // The largest becomes -8, and there are steps up to 7 on its other side.
    const float scale = as_half((size == *most ? -size : size) / 8);
    out.half(scale);
    put_nibbles([&](float value) { return steps(value, scale, -8, 7) + 8; });
  } else {
    const float scale = as_half((*most - *least) / 15), offset = as_half(*least);
    out.half(scale);
    out.half(offset);
    put_nibbles([&](float value) { return steps(value - offset, scale, 0, 15); });
  }
}

}  // namespace

void write_rounded(const attacca::model::Checkpoint& from, TensorType type,
                   const std::filesystem::path& to) {
  const auto [count, bytes] = kernels::block_shape(type);
  const auto round = [&, count = count, bytes = bytes](const std::string& name,
                                                       const Tensor& tensor) {
    if (tensor.shape.back() % count != 0)
      throw attacca::BadArgument(
          fmt::format("{} has rows of {} elements, which are no blocks of {}", name,
                      tensor.shape.back(), type_name(type)));
    const std::vector<float> elements = attacca::model::elements_of(matrix_of(tensor));
    std::vector<std::byte> blocks(elements.size() / count * bytes);
    for (std::size_t at = 0; at * count < elements.size(); ++at)
      round_block(type, std::span(elements).subspan(at * count, count), &blocks[at * bytes]);
    return attacca::model::NewMatrix{type, std::move(blocks)};
  };
  attacca::model::write_converted(from, to, false, round);
}

}  // namespace bench
