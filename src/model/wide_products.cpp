// wide_products.cpp: see wide_products.hpp.
#include "model/wide_products.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "model/streamed_step.hpp"

namespace attacca::model {

using namespace kernels;

bool can_be_wide(const Device& device, const Weights& weights) {
  const auto is_bfloat = [](const Matrix& w) {
    return w.type == TensorType::bf16 && w.columns % wide::kStep == 0;
  };
  return has_wide_linear(device) && can_stream(weights) && is_bfloat(weights.head) &&
         std::all_of(weights.layers.begin(), weights.layers.end(), [&](const LayerWeights& w) {
           return is_bfloat(w.query) && is_bfloat(w.output) && is_bfloat(w.gate) &&
                  is_bfloat(w.up) && is_bfloat(w.down);
         });
}

WideProducts::WideProducts(const Device& device, const ModelConfig& c, const Weights& weights,
                           const StepActivations& a, const StepShape& shape)
    : device_(device),
      on_device_(device, 0),
      workspace_(device, wide_workspace_bytes(processors_of(device))) {
  for (const LayerWeights& w : weights.layers) {
    add_weights(joined(w));
    add_weights(w.output);
    add_gate(w.gate, w.up);
    add_weights(w.down);
  }
  add_weights(weights.head);
  add_rows(a.normed.data, shape.tokens, c.hidden);
  add_rows(a.attended.data, shape.tokens, c.heads * c.head_size);
  add_rows(a.gated.data, shape.tokens, c.feed_forward);
  add_rows(a.last.data, shape.rows, c.hidden);
  on_device_ = Buffer<TensorMap>(device, maps_);
  const Stream stream(device);
  stream.fill(workspace_.data(), 0, workspace_.bytes());
  stream.synchronize();
}

std::size_t WideProducts::bytes_for(const Device& device, const ModelConfig& c) {
  if (!has_wide_linear(device)) return 0;
  return wide_workspace_bytes(processors_of(device)) + (4 * c.layers + 9) * sizeof(TensorMap);
}

WideLinearArgs WideProducts::of(const ThinLinearArgs& product) const {
  const bool is_gate = product.end == ThinEnd::gate;
  const bool gate_is_second = is_gate && std::less<>{}(product.up.data, product.w.data);
  const void* weights = gate_is_second ? product.up.data : product.w.data;
  const auto at = [&](const void* data, std::uint32_t rows) {
    return on_device_.data() + index_.at({data, rows});
  };
  return {at(weights, 0), at(product.x, wide_rows(product.rows.capacity)),
          const_cast<std::byte*>(workspace_.data()), gate_is_second, product};
}

void WideProducts::add(std::pair<const void*, std::uint32_t> key, const TensorMap& map) {
  if (index_.emplace(key, maps_.size()).second) maps_.push_back(map);
}
void WideProducts::add_weights(const Matrix& w) { add({w.data, 0}, map_weights(device_, w)); }
void WideProducts::add_gate(const Matrix& gate, const Matrix& up) {
  const bool is_second = std::less<>{}(up.data, gate.data);
  const Matrix& first = is_second ? up : gate;
  add({first.data, 0}, map_weights(device_, first, is_second ? gate : up));
}
void WideProducts::add_rows(const void* x, std::uint32_t rows, std::uint32_t columns) {
  for (const std::uint32_t capacity : {64u, 128u})
    add({x, capacity}, map_rows(device_, x, rows, columns, capacity));
}

}  // namespace attacca::model
