// weights.cpp: finds each tensor's role, copies tensors to a GPU and converts them there.
#include "model/weights.hpp"

#include <algorithm>
#include <attacca/error.hpp>
#include <cstdint>
#include <string>

#include "kernels/linear/streamed_linear.hpp"
#include "kernels/repack.hpp"
#include "kernels/to_fp8.hpp"
#include "model/checkpoint.hpp"
#include "model/held_types.hpp"

namespace attacca::model {

namespace {

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(float) == 0;
}

}  // namespace

Weights::Weights(const Device& device, WeightFormat format) : device_(device), format_(format) {
  if (format == WeightFormat::fp8 && !device.is_cuda())
    throw BadArgument("weights in fp8 need a CUDA device, and " + device.name() +
                      " is none; use the weights as they are stored");
}

Weights::Weights(const Checkpoint& checkpoint, const Device& device,
                 const formats::Progress& progress, WeightFormat format, const Shard& shard)
    : Weights(device, format) {
  const ModelConfig& c = checkpoint.config();
  if (!device_.is_cuda()) checkpoint.read_ahead(progress);  // the mapped file is used as it is
  const std::uint64_t steps = c.layers + 1;
  const auto report = [&](std::uint64_t done) {
    if (device_.is_cuda() && progress) progress("copying weights", done, steps);
  };
  const auto need = [&](const std::string& name) -> formats::Tensor {
    return *checkpoint.find(name);
  };
  const HeldTypes held(checkpoint, format);
  report(0);
  // A rank's rows.
  const auto part_of = [&](const formats::Tensor& tensor) {
    return cut_rows(
        tensor, rows_of(static_cast<std::uint32_t>(tensor.shape.front()), shard.rank, shard.ranks));
  };
  const auto keys = [&](const formats::Tensor& tensor) {
    return cut_rows(tensor, keys_of(static_cast<std::uint32_t>(tensor.shape.front()), c, shard));
  };
  embedding = matrix(need("token_embd.weight"));
  head = embedding;
  const RowRange of_head = rows_of(head.rows, shard.rank, shard.ranks);
  head.data = head.row(of_head.first);
  head.rows = of_head.count;
  if (checkpoint.find("output.weight"))
    head = product(part_of(checkpoint.head()), held);
  else if (device_.is_cuda() && held.of(checkpoint.head()) != head.type)
    convert({&head, 1}, held.of(checkpoint.head()));
  final_norm = vector(checkpoint.find("output_norm.weight"));
  frequencies = keep(rotary_frequencies(c));
  report(1);
  layers.reserve(c.layers);
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    const auto optional = [&](const char* name) { return vector(checkpoint.find(at + name)); };
    const auto [query, key, value] =
        neighbours(std::array{part_of(need(at + "attn_q.weight")), keys(need(at + "attn_k.weight")),
                              keys(need(at + "attn_v.weight"))},
                   held);
    std::vector<formats::Tensor> biases;
    if (checkpoint.find(at + "attn_q.bias"))
      biases = {part_of(need(at + "attn_q.bias")), keys(need(at + "attn_k.bias")),
                keys(need(at + "attn_v.bias"))};
    const auto [query_bias, key_bias, value_bias] = neighbours(biases);
    layers.push_back({
        .attention_norm = optional("attn_norm.weight"),
        .query = query,
        .key = key,
        .value = value,
        .query_bias = query_bias,
        .key_bias = key_bias,
        .value_bias = value_bias,
        .query_norm = optional("attn_q_norm.weight"),
        .key_norm = optional("attn_k_norm.weight"),
        .output = columns(need(at + "attn_output.weight"), held, shard),
        .feed_forward_norm = optional("ffn_norm.weight"),
        .gate = product(part_of(need(at + "ffn_gate.weight")), held),
        .up = product(part_of(need(at + "ffn_up.weight")), held),
        .down = columns(need(at + "ffn_down.weight"), held, shard),
    });
    report(i + 2);
  }
}

kernels::Matrix Weights::matrix(const formats::Tensor& tensor) {
  kernels::Matrix matrix = formats::matrix_of(tensor);
  if (!device_.is_cuda()) {
    bytes_mapped_ += tensor.bytes;
    return matrix;
  }
  Buffer<std::byte>& copy = matrices_.emplace_back(device_, tensor.bytes);
  copy.write({tensor.data, tensor.bytes});
  bytes_copied_ += tensor.bytes;
  matrix.data = copy.data();
  return matrix;
}

kernels::Matrix Weights::product(const formats::Tensor& tensor, const HeldTypes& held) {
  kernels::Matrix result = matrix(tensor);
  if (device_.is_cuda() && held.of(tensor) != result.type) replace({&result, 1}, held.of(tensor));
  return result;
}

kernels::Matrix Weights::columns(const formats::Tensor& tensor, const HeldTypes& held,
                                 const Shard& shard) {
  if (shard.ranks == 1) return product(tensor, held);
  std::vector<std::byte> memory;
  const formats::Tensor part = cut_columns(tensor, shard, memory);
  if (device_.is_cuda()) return product(part, held);
  kernels::Matrix result = formats::matrix_of(part);
  result.data = matrices_.emplace_back(device_, memory).data();
  bytes_copied_ += part.bytes;
  return result;
}

void Weights::replace(std::span<kernels::Matrix> matrices, kernels::TensorType type) {
  const Buffer<std::byte> old = std::move(matrices_.back());
  matrices_.pop_back();
  bytes_copied_ -= old.bytes();
  convert(matrices, type);
}

void Weights::convert(std::span<kernels::Matrix> matrices, kernels::TensorType type) {
  std::uint64_t rows = 0;
  for (const kernels::Matrix& matrix : matrices) rows += matrix.rows;
  const std::uint64_t row_bytes = kernels::row_bytes(type, matrices[0].columns);
  Buffer<std::byte>& bytes = matrices_.emplace_back(device_, rows * row_bytes);
  Buffer<float>& scales =
      vectors_.emplace_back(device_, type == kernels::TensorType::e4m3 ? rows : 0);
  bytes_copied_ += bytes.bytes() + scales.bytes();
  rows = 0;
  for (kernels::Matrix& matrix : matrices) {
    convert(matrix, type, bytes.data() + rows * row_bytes, scales.data() + rows);
    rows += matrix.rows;
  }
}

void Weights::convert(kernels::Matrix& matrix, kernels::TensorType type, std::byte* to,
                      float* scales) {
  const kernels::Matrix from = matrix;
  const bool is_fp8 = type == kernels::TensorType::e4m3;
  matrix.type = type;
  matrix.data = to;
  matrix.scales = is_fp8 ? scales : nullptr;
  in_file_[to] = from.type;
  if (is_fp8 && !kernels::can_stream_weights(matrix))
    throw BadArgument(
        "weights in fp8 have rows that 16 divides and columns that 32 divides; a "
        "matrix of this model is " +
        std::to_string(matrix.rows) + " x " + std::to_string(matrix.columns) +
        ", so use its weights as they are stored");
  const Stream stream(device_);
  if (is_fp8) {
    const kernels::ToFp8Args args{from, reinterpret_cast<std::uint8_t*>(to), scales};
    stream.kernel(kernels::to_fp8(), kernels::grid_of(args, device_.is_cuda()), args);
  } else if (from.type == type) {
    stream.copy(to, from.data, from.bytes());
  } else {
    const kernels::RepackArgs args{from, to, type};
    stream.kernel(kernels::repack(), kernels::grid_of(args, device_.is_cuda()), args);
  }
  stream.synchronize();
}

kernels::TensorType Weights::type_in_file(const kernels::Matrix& matrix) const {
  const auto found = in_file_.find(matrix.data);
  return found == in_file_.end() ? matrix.type : found->second;
}

std::array<kernels::Matrix, 3> Weights::neighbours(const std::array<formats::Tensor, 3>& tensors,
                                                   const HeldTypes& held) {
  if (!device_.is_cuda()) return {matrix(tensors[0]), matrix(tensors[1]), matrix(tensors[2])};
  Buffer<std::byte>& all =
      matrices_.emplace_back(device_, tensors[0].bytes + tensors[1].bytes + tensors[2].bytes);
  std::array<kernels::Matrix, 3> result;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    result[i] = formats::matrix_of(tensors[i]);
    result[i].data = all.data() + bytes.size();
    bytes.insert(bytes.end(), tensors[i].data, tensors[i].data + tensors[i].bytes);
  }
  all.write(bytes);
  bytes_copied_ += bytes.size();
  const auto is_held = [&](const formats::Tensor& tensor) {
    return held.of(tensor) == tensor.type;
  };
  if (!std::all_of(tensors.begin(), tensors.end(), is_held)) replace(result, held.of(tensors[0]));
  return result;
}

std::array<const float*, 3> Weights::neighbours(std::span<const formats::Tensor> tensors) {
  if (tensors.empty()) return {};
  std::vector<float> all;
  std::array<std::size_t, 3> starts{};
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    starts[i] = all.size();
    const std::vector<float> values = formats::to_floats(tensors[i]);
    all.insert(all.end(), values.begin(), values.end());
  }
  const float* data = keep(all);
  return {data + starts[0], data + starts[1], data + starts[2]};
}

const float* Weights::vector(const formats::Tensor* tensor) {
  if (!tensor) return nullptr;
  const bool is_usable = tensor->type == kernels::TensorType::f32 && is_aligned(tensor->data);
  if (!is_usable || device_.is_cuda()) return keep(formats::to_floats(*tensor));
  bytes_mapped_ += tensor->bytes;
  return reinterpret_cast<const float*>(tensor->data);
}

const float* Weights::keep(const std::vector<float>& values) {
  bytes_copied_ += values.size() * sizeof(float);
  return vectors_.emplace_back(device_, values).data();
}

}  // namespace attacca::model
