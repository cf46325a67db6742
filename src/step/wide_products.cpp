// wide_products.cpp: see wide_products.hpp.
#include "step/wide_products.hpp"

#include <algorithm>
#include <utility>

#include "step/streamed_step.hpp"

namespace attacca::step {

using namespace kernels;

bool has_wide_products(const Device& device, bool same_bits) {
  return same_bits ? has_many_linear(device, processors_of(device)) : has_wide_linear(device);
}

bool can_be_wide(const Matrix& w) {
  return w.type == TensorType::bf16 && w.columns % wide::kStep == 0;
}

bool can_be_wide(const Device& device, const model::Weights& weights, bool same_bits) {
  return has_wide_products(device, same_bits) && can_stream(weights) && can_be_wide(weights.head) &&
         std::all_of(weights.layers.begin(), weights.layers.end(),
                     [](const model::LayerWeights& w) {
                       return can_be_wide(w.query) && can_be_wide(w.output) &&
                              can_be_wide(w.gate) && can_be_wide(w.up) && can_be_wide(w.down);
                     });
}

WideProducts::WideProducts(const Device& device, const model::ModelConfig& c,
                           const model::Weights& weights, const StepActivations& a,
                           const StepShape& shape, bool same_bits)
    : device_(device),
      same_bits_(same_bits),
      on_device_(device, 0),
      workspace_(device, same_bits ? 0 : wide_workspace_bytes(processors_of(device))) {
  for (const model::LayerWeights& w : weights.layers) {
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

std::size_t WideProducts::bytes_for(const Device& device, const model::ModelConfig& c,
                                    bool same_bits) {
  if (!has_wide_linear(device)) return 0;
  return (same_bits ? 0 : wide_workspace_bytes(processors_of(device))) +
         (4 * c.layers + 9) * sizeof(TensorMap);
}

const TensorMap* WideProducts::weights_of(const ThinLinearArgs& product) const {
  return on_device_.data() + index_.at({product.w.data, 0});
}
WideLinearArgs WideProducts::wide(const ThinLinearArgs& product) const {
  const auto rows = index_.at({product.x, wide_rows(product.rows.capacity)});
  return {weights_of(product), on_device_.data() + rows, const_cast<std::byte*>(workspace_.data()),
          gate_is_second(product.w, product.up), product};
}
ManyLinearArgs WideProducts::many(const ThinLinearArgs& product) const {
  return {weights_of(product), on_device_.data() + index_.at({product.x, many::kRows}),
          gate_is_second(product.w, product.up), product};
}

void WideProducts::add(std::pair<const void*, std::uint32_t> key, const TensorMap& map) {
  if (index_.emplace(key, maps_.size()).second) maps_.push_back(map);
}
void WideProducts::add_weights(const Matrix& w) {
  add({w.data, 0}, same_bits_ ? map_tiles(device_, w) : map_weights(device_, w));
}
void WideProducts::add_gate(const Matrix& gate, const Matrix& up) {
  add({gate.data, 0}, same_bits_ ? map_tiles(device_, gate, up) : map_weights(device_, gate, up));
}
void WideProducts::add_rows(const void* x, std::uint32_t rows, std::uint32_t columns) {
  if (same_bits_) return add({x, many::kRows}, map_many_rows(device_, x, rows, columns));
  for (const std::uint32_t capacity : {64u, 128u})
    add({x, capacity}, map_rows(device_, x, rows, columns, capacity));
}

}  // namespace attacca::step
