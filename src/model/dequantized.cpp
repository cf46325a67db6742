// dequantized.cpp: copies metadata and vectors, and expands matrices on the host.
#include "model/dequantized.hpp"

#include <attacca/device.hpp>
#include <attacca/memory.hpp>
#include <cstdint>
#include <deque>
#include <span>

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

void write_converted(const Checkpoint& from, const std::filesystem::path& to, bool own_head,
                     const Convert& convert) {
  formats::GgufWriter writer;
  for (const auto& [key, value] : from.gguf()->metadata())
    if (key != "general.alignment") writer.set(key, value);
  std::deque<NewMatrix> matrices;  // until the file is written
  const auto add = [&](const std::string& name, const formats::Tensor& tensor) {
    const NewMatrix& matrix = matrices.emplace_back(convert(name, tensor));
    writer.add(name, matrix.type, tensor.shape, matrix.data);
  };
  for (const formats::Tensor& tensor : from.gguf()->tensors())
    if (tensor.shape.size() == 2)
      add(tensor.name, tensor);
    else
      writer.add(tensor.name, tensor.type, tensor.shape, {tensor.data, tensor.bytes});
  if (own_head && from.head().name == kEmbedding) add("output.weight", from.head());
  writer.write(to);
}

void write_dequantized(const Checkpoint& from, WeightFormat format,
                       const std::filesystem::path& to) {
  const bool is_fp8 = format == WeightFormat::fp8;
  // Of an embedding that is the head too, only the head is converted.
  write_converted(from, to, is_fp8, [&](const std::string& name, const formats::Tensor& tensor) {
    const kernels::Matrix matrix = matrix_of(tensor);
    const std::vector<float> elements =
        is_fp8 && name != kEmbedding ? elements_in_fp8(matrix) : elements_of(matrix);
    const std::span bytes = std::as_bytes(std::span(elements));
    return NewMatrix{kernels::TensorType::f32, {bytes.begin(), bytes.end()}};
  });
}

}  // namespace attacca::model
