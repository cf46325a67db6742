// random_weights.cpp: makes random weights on the device, for benchmarks of shapes without their
// large files. Only their sizes and layout are those of a model.
#include <vector>

#include "kernels/random_fill.hpp"
#include "model/config.hpp"
#include "model/weights.hpp"

namespace attacca::model {

namespace {

constexpr float kDeviation = 0.02f;

}  // namespace

Weights::Weights(const ModelConfig& c, const Device& device, std::optional<std::uint64_t> seed,
                 WeightFormat format)
    : Weights(device, format) {
  const Stream stream(device);
  std::uint64_t matrices = 0;
  const auto random = [&](std::uint32_t rows, std::uint32_t columns) {
    kernels::Matrix made{nullptr, kernels::TensorType::bf16, rows, columns};
    Buffer<std::byte>& memory = matrices_.emplace_back(device_, made.bytes());
    made.data = memory.data();
    bytes_copied_ += made.bytes();
    if (!seed) return made;
    const kernels::RandomFillArgs args{memory.data(), made.type, std::uint64_t{rows} * columns,
                                       *seed + ++matrices, kDeviation};
    stream.kernel(kernels::random_fill(), kernels::grid_of(args, device.is_cuda()), args);
    return made;
  };
  const auto product = [&](std::uint32_t rows, std::uint32_t columns) {
    kernels::Matrix made = random(rows, columns);
    if (format_ != WeightFormat::fp8) return made;
    stream.synchronize();
    replace({&made, 1}, kernels::TensorType::e4m3);
    return made;
  };
  const auto all = [&](bool is_there, std::uint32_t count, float value) {
    return is_there ? keep(std::vector<float>(count, value)) : nullptr;
  };
  const std::uint32_t queries = c.heads * c.head_size;
  const std::uint32_t keys = c.kv_heads * c.head_size;
  const bool has_bias = c.architecture->has_qkv_bias;
  const bool has_norm = c.architecture->has_qk_norm;

  embedding = random(c.vocabulary, c.hidden);
  if (!c.is_tied.value_or(false)) {
    head = product(c.vocabulary, c.hidden);
  } else {
    head = embedding;
    stream.synchronize();
    if (format_ == WeightFormat::fp8) convert({&head, 1}, kernels::TensorType::e4m3);
  }
  final_norm = all(true, c.hidden, 1);
  frequencies = keep(rotary_frequencies(c));
  layers.reserve(c.layers);
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const kernels::Matrix qkv = product(queries + 2 * keys, c.hidden);
    const auto rows_of_it = [&](std::uint32_t first, std::uint32_t rows) {
      return kernels::Matrix{qkv.row(first), qkv.type, rows, qkv.columns,
                             qkv.scales ? qkv.scales + first : nullptr};
    };
    const float* bias = all(has_bias, qkv.rows, 0);
    layers.push_back({
        .attention_norm = all(true, c.hidden, 1),
        .query = rows_of_it(0, queries),
        .key = rows_of_it(queries, keys),
        .value = rows_of_it(queries + keys, keys),
        .query_bias = bias,
        .key_bias = bias ? bias + queries : nullptr,
        .value_bias = bias ? bias + queries + keys : nullptr,
        .query_norm = all(has_norm, c.head_size, 1),
        .key_norm = all(has_norm, c.head_size, 1),
        .output = product(c.hidden, queries),
        .feed_forward_norm = all(true, c.hidden, 1),
        .gate = product(c.feed_forward, c.hidden),
        .up = product(c.feed_forward, c.hidden),
        .down = product(c.hidden, c.feed_forward),
    });
  }
  stream.synchronize();
}

}  // namespace attacca::model
