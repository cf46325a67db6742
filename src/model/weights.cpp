// weights.cpp: see weights.hpp.
#include "model/weights.hpp"

#include <cstdint>
#include <string>

#include "model/config.hpp"

namespace attacca::model {

namespace {

bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % alignof(float) == 0;
}

}  // namespace

Weights::Weights(const Checkpoint& checkpoint, const Device& device, const Progress& progress)
    : device_(device) {
  const ModelConfig& c = checkpoint.config();
  const std::uint64_t steps = c.layers + 1;
  const auto report = [&](std::uint64_t done) {
    if (progress) progress("loading weights", done, steps);
  };
  const auto need = [&](const std::string& name) -> Tensor { return *checkpoint.find(name); };
  report(0);
  embedding = matrix(need("token_embd.weight"));
  const Tensor* output = checkpoint.find("output.weight");
  head = output ? matrix(*output) : embedding;
  final_norm = vector(checkpoint.find("output_norm.weight"));
  frequencies = keep(rotary_frequencies(c));
  report(1);
  layers.reserve(c.layers);
  for (std::uint32_t i = 0; i < c.layers; ++i) {
    const std::string at = "blk." + std::to_string(i) + ".";
    const auto optional = [&](const char* name) { return vector(checkpoint.find(at + name)); };
    layers.push_back({
        .attention_norm = optional("attn_norm.weight"),
        .query = matrix(need(at + "attn_q.weight")),
        .key = matrix(need(at + "attn_k.weight")),
        .value = matrix(need(at + "attn_v.weight")),
        .query_bias = optional("attn_q.bias"),
        .key_bias = optional("attn_k.bias"),
        .value_bias = optional("attn_v.bias"),
        .query_norm = optional("attn_q_norm.weight"),
        .key_norm = optional("attn_k_norm.weight"),
        .output = matrix(need(at + "attn_output.weight")),
        .feed_forward_norm = optional("ffn_norm.weight"),
        .gate = matrix(need(at + "ffn_gate.weight")),
        .up = matrix(need(at + "ffn_up.weight")),
        .down = matrix(need(at + "ffn_down.weight")),
    });
    report(i + 2);
  }
}

kernels::Matrix Weights::matrix(const Tensor& tensor) {
  kernels::Matrix matrix = matrix_of(tensor);
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

const float* Weights::vector(const Tensor* tensor) {
  if (!tensor) return nullptr;
  const bool is_usable = tensor->type == kernels::TensorType::f32 && is_aligned(tensor->data);
  if (!is_usable || device_.is_cuda()) return keep(to_floats(*tensor));
  bytes_mapped_ += tensor->bytes;
  return reinterpret_cast<const float*>(tensor->data);
}

const float* Weights::keep(const std::vector<float>& values) {
  bytes_copied_ += values.size() * sizeof(float);
  return vectors_.emplace_back(device_, values).data();
}

}  // namespace attacca::model
