// tiled_products.cpp: makes one map for each matrix of weights and for each region of activations
// that a product reads, and finds them again by address and shape.
#include "step/tiled_products.hpp"

#include <algorithm>
#include <utility>

#include "step/streamed_step.hpp"

namespace attacca::step {

using namespace kernels;

bool can_be_tiled(const Matrix& w, bool same_bits) {
  return (has_tiled_type(w.type, same_bits) || (!same_bits && can_expand(w))) &&
         w.columns % tiled::kStep == 0;
}

bool can_be_tiled(const Device& device, const model::Weights& weights, bool same_bits) {
  const auto can_be = [&](const Matrix& w) { return can_be_tiled(w, same_bits); };
  return has_tiled_linear(device) && can_stream(weights) && can_be(weights.head) &&
         std::all_of(weights.layers.begin(), weights.layers.end(),
                     [&](const model::LayerWeights& w) {
                       return can_be(w.query) && can_be(w.output) && can_be(w.gate) &&
                              can_be(w.up) && can_be(w.down);
                     });
}

namespace {

bool is_half(const Matrix& w) { return w.type == TensorType::f16; }
bool is_expanded(const Matrix& w) { return !has_tiled_type(w.type, false); }

bool is_any(const model::Weights& weights, bool (&is)(const Matrix&)) {
  return is(weights.head) || std::any_of(weights.layers.begin(), weights.layers.end(),
                                         [&](const model::LayerWeights& w) {
                                           return is(w.query) || is(w.output) || is(w.gate) ||
                                                  is(w.down);
                                         });
}

/// Elements of the largest product of these sizes that may be expanded.
std::size_t most_expanded(const model::ModelConfig& c, const StepSizes& sizes) {
  const std::size_t hidden = c.hidden;
  const std::size_t queries = std::size_t{c.heads} * c.head_size;
  const std::size_t keys = std::size_t{c.kv_heads} * c.head_size;
  std::size_t most = std::max({(queries + 2 * keys) * hidden, 2 * c.feed_forward * hidden});
  if (sizes.largest.rows > kMostStreamedPacked) most = std::max(most, c.vocabulary * hidden);
  return sizes.largest.tokens > kMostStreamedPacked && !sizes.same_bits ? most : 0;
}

}  // namespace

TiledProducts::TiledProducts(const StepMemory& memory)
    : device_(memory.device()),
      same_bits_(memory.sizes().same_bits),
      expands_(is_any(memory.weights(), is_expanded)),
      most_streamed_(expands_                            ? kMostStreamedPacked
                     : is_any(memory.weights(), is_half) ? kMostStreamedHalf
                                                         : kMostStreamed),
      on_device_(device_, 0),
      workspace_(device_, tiled_workspace_bytes(device_.processors(), same_bits_)),
      expanded_(device_, expands_ ? most_expanded(memory.config(), memory.sizes()) : 0) {
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
                                     const StepSizes& sizes, bool expands) {
  if (!has_tiled_linear(device)) return 0;
  return tiled_workspace_bytes(device.processors(), sizes.same_bits) +
         (4 * c.layers + 13) * sizeof(TensorMap) +
         (expands ? most_expanded(c, sizes) * sizeof(std::uint16_t) : 0);
}

bool TiledProducts::takes(std::uint32_t rows) const { return rows > most_streamed_; }

Matrix TiledProducts::as_multiplied(const Matrix& w, bool is_second) const {
  if (!is_expanded(w)) return w;
  const std::size_t first = is_second ? std::size_t{w.rows} * w.columns : 0;
  return {expanded_.data() + first, TensorType::bf16, w.rows, w.columns};
}

std::vector<ExpandArgs> TiledProducts::expansions(const StreamedLinearArgs& product) const {
  std::vector<ExpandArgs> all;
  const auto add = [&](const Matrix& w, bool is_second) {
    if (is_expanded(w))
      all.push_back(
          {w, static_cast<std::uint16_t*>(const_cast<void*>(as_multiplied(w, is_second).data))});
  };
  add(product.w, false);
  if (product.epilogue == Epilogue::gate) add(product.up, true);
  return all;
}

TiledLinearArgs TiledProducts::arguments(const StreamedLinearArgs& product,
                                         const RopeEpilogue& rope) const {
  StreamedLinearArgs of = product;
  of.w = as_multiplied(product.w);
  if (product.epilogue == Epilogue::gate) of.up = as_multiplied(product.up, true);
  const auto weights = index_.at(key_of(of.w, of.epilogue == Epilogue::gate));
  const std::uint32_t tile_rows = tiled_rows(of, same_bits_, device_.processors());
  const auto rows = index_.at(key_of(of.x, tile_rows));
  return {.w_map = on_device_.data() + weights,
          .x_map = on_device_.data() + rows,
          .workspace = const_cast<std::byte*>(workspace_.data()),
          .gate_is_second = gate_is_second(of.w, of.up),
          .in_order = same_bits_,
          .tile_rows = tile_rows,
          .product = of,
          .rope = rope};
}

void TiledProducts::add(const Key& key, const TensorMap& map) {
  if (index_.emplace(key, maps_.size()).second) maps_.push_back(map);
}
bool TiledProducts::is_always_streamed(const Matrix& w) const {
  return is_expanded(w) && std::size_t{w.rows} * w.columns > expanded_.size();
}
void TiledProducts::add_weights(const Matrix& w) {
  if (is_always_streamed(w)) return;
  const Matrix there = as_multiplied(w);
  add(key_of(there, false), map_weights(device_, there));
}
void TiledProducts::add_gate(const Matrix& gate, const Matrix& up) {
  if (is_always_streamed(gate)) return;
  const Matrix first = as_multiplied(gate), second = as_multiplied(up, true);
  add(key_of(first, true), map_weights(device_, first, second));
}
void TiledProducts::add_rows(const void* x, std::uint32_t rows, std::uint32_t columns) {
  for (const std::uint32_t tile_rows : kTileRows)
    add(key_of(x, tile_rows), map_rows(device_, x, rows, columns, tile_rows));
}

}  // namespace attacca::step
