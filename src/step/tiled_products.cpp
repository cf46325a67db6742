// tiled_products.cpp: makes one map for each matrix of weights and for each region of activations
// that a product reads, and finds them again by address.
#include "step/tiled_products.hpp"

#include <algorithm>
#include <utility>

#include "step/streamed_step.hpp"

namespace attacca::step {

using namespace kernels;

bool has_tiled_products(const Device& device, bool same_bits) {
  return same_bits ? has_same_bits_linear(device, device.processors()) : has_tiled_linear(device);
}

bool can_be_tiled(const Matrix& w) {
  return w.type == TensorType::bf16 && w.columns % tiled::kStep == 0;
}

bool can_be_tiled(const Device& device, const model::Weights& weights, bool same_bits) {
  return has_tiled_products(device, same_bits) && can_stream(weights) &&
         can_be_tiled(weights.head) &&
         std::all_of(weights.layers.begin(), weights.layers.end(),
                     [](const model::LayerWeights& w) {
                       return can_be_tiled(w.query) && can_be_tiled(w.output) &&
                              can_be_tiled(w.gate) && can_be_tiled(w.up) && can_be_tiled(w.down);
                     });
}

TiledProducts::TiledProducts(const StepMemory& memory)
    : device_(memory.device()),
      same_bits_(memory.sizes().same_bits),
      on_device_(device_, 0),
      workspace_(device_, same_bits_ ? 0 : tiled_workspace_bytes(device_.processors())) {
  const model::ModelConfig& c = memory.config();
  const StepShape& shape = memory.sizes().largest;
  for (const model::LayerWeights& w : memory.weights().layers) {
    add_weights(joined(w));
    add_weights(w.output);
    add_gate(w.gate, w.up);
    add_weights(w.down);
  }
  add_weights(memory.weights().head);
  add_rows(memory.normed().data(), shape.tokens, c.hidden);
  add_rows(memory.attended().data(), shape.tokens, c.heads * c.head_size);
  add_rows(memory.gated().data(), shape.tokens, c.feed_forward);
  add_rows(memory.last().data(), shape.rows, c.hidden);
  on_device_ = Buffer<TensorMap>(device_, maps_);
  const Stream stream(device_);
  stream.fill(workspace_.data(), 0, workspace_.bytes());
  stream.synchronize();
}

std::size_t TiledProducts::bytes_for(const Device& device, const model::ModelConfig& c,
                                     bool same_bits) {
  if (!has_tiled_linear(device)) return 0;
  return (same_bits ? 0 : tiled_workspace_bytes(device.processors())) +
         (4 * c.layers + 9) * sizeof(TensorMap);
}

const TensorMap* TiledProducts::weights_of(const StreamedLinearArgs& product) const {
  return on_device_.data() + index_.at({product.w.data, 0});
}
TiledLinearArgs TiledProducts::arguments(const StreamedLinearArgs& product) const {
  const auto rows = index_.at({product.x, tiled_rows(product.rows.capacity)});
  return {weights_of(product), on_device_.data() + rows, const_cast<std::byte*>(workspace_.data()),
          gate_is_second(product.w, product.up), product};
}
SameBitsLinearArgs TiledProducts::same_bits_arguments(const StreamedLinearArgs& product) const {
  return {weights_of(product), on_device_.data() + index_.at({product.x, same_bits::kRows}),
          gate_is_second(product.w, product.up), product};
}

void TiledProducts::add(std::pair<const void*, std::uint32_t> key, const TensorMap& map) {
  if (index_.emplace(key, maps_.size()).second) maps_.push_back(map);
}
void TiledProducts::add_weights(const Matrix& w) {
  add({w.data, 0}, same_bits_ ? map_tiles(device_, w) : map_weights(device_, w));
}
void TiledProducts::add_gate(const Matrix& gate, const Matrix& up) {
  add({gate.data, 0}, same_bits_ ? map_tiles(device_, gate, up) : map_weights(device_, gate, up));
}
void TiledProducts::add_rows(const void* x, std::uint32_t rows, std::uint32_t columns) {
  if (same_bits_) return add({x, same_bits::kRows}, map_same_bits_rows(device_, x, rows, columns));
  for (const std::uint32_t capacity : {64u, 128u})
    add({x, capacity}, map_rows(device_, x, rows, columns, capacity));
}

}  // namespace attacca::step
