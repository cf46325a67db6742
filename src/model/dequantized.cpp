// dequantized.cpp: copies metadata and vectors, and expands matrices on the host.
#include "model/dequantized.hpp"

#include <attacca/device.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <deque>

#include "formats/gguf_writer.hpp"
#include "kernels/quantization.hpp"
#include "kernels/to_fp8.hpp"

namespace attacca::model {

namespace {

constexpr const char* kEmbedding = "token_embd.weight";

std::vector<float> elements_in_fp8(const kernels::Matrix& m) {
  const Device host = Device::host();
  Buffer<std::uint8_t> bytes(host, std::size_t{m.rows} * m.columns);
  Buffer<float> scales(host, m.rows);
  const kernels::ToFp8Args args{m, bytes.data(), scales.data()};
  const Stream stream(host);
  stream.kernel(kernels::to_fp8(), kernels::grid_of(args, false), args);
  stream.synchronize();
  return elements_of({bytes.data(), kernels::TensorType::e4m3, m.rows, m.columns, scales.data()});
}

}  // namespace

std::vector<float> elements_of(const kernels::Matrix& matrix) {
  std::vector<float> elements;
  elements.reserve(std::size_t{matrix.rows} * matrix.columns);
  for (std::uint32_t row = 0; row < matrix.rows; ++row)
    for (std::uint32_t i = 0; i < matrix.columns; ++i)
      elements.push_back(kernels::element(matrix.type, matrix.row(row), i) * matrix.scale(row));
  return elements;
}

void write_dequantized(const Checkpoint& from, WeightFormat format,
                       const std::filesystem::path& to) {
  const bool is_fp8 = format == WeightFormat::fp8;
  formats::GgufWriter writer;
  for (const auto& [key, value] : from.gguf()->metadata())
    if (key != "general.alignment") writer.set(key, value);
  std::deque<std::vector<float>> all;
  for (const formats::Tensor& tensor : from.gguf()->tensors()) {
    if (tensor.shape.size() != 2) {
      writer.add(tensor.name, tensor.type, tensor.shape, {tensor.data, tensor.bytes});
      continue;
    }
    const kernels::Matrix matrix = matrix_of(tensor);
    writer.add(tensor.name, tensor.shape,
               all.emplace_back(is_fp8 && tensor.name != kEmbedding ? elements_in_fp8(matrix)
                                                                    : elements_of(matrix)));
  }
  // Where the head is the embedding, only the head is converted.
  if (is_fp8 && from.head().name == kEmbedding)
    writer.add("output.weight", from.head().shape,
               all.emplace_back(elements_in_fp8(matrix_of(from.head()))));
  writer.write(to);
}

}  // namespace attacca::model
