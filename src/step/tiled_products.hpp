// tiled_products.hpp: what products of many rows need in the device's memory: the tensor maps by
// which TMA brings boxes of a model's weights and activations, and room for one matrix in bf16,
// where weights of other types are expanded before they are multiplied.
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "kernels/linear/expand.hpp"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

class TiledProducts {
 public:
  /// For the weights and the activations of this memory. REQUIRES: can_be_tiled. Products have the
  /// same bits as those of few rows where the memory asks for that, else they are faster.
  explicit TiledProducts(const StepMemory& memory);
  /// Bytes of it for these sizes, before there is one. `expands`: some weights are expanded.
  static std::size_t bytes_for(const Device& device, const model::ModelConfig& config,
                               const StepSizes& sizes, bool expands);

  /// Whether products of so many rows are tiled; fewer are streamed.
  bool takes(std::uint32_t rows) const;
  std::size_t bytes() const { return on_device_.bytes() + workspace_.bytes() + expanded_.bytes(); }
  /// The kernels that expand the weights of a product: none for types that tiles have, two for a
  /// gate.
  std::vector<kernels::ExpandArgs> expansions(const kernels::StreamedLinearArgs& product) const;
  /// The product with its maps. It multiplies expanded weights where there are some. REQUIRES: of
  /// these weights and activations; for f16 weights x is made f16 before (half_rows.hpp); `rope`
  /// only for queries, keys and values.
  kernels::TiledLinearArgs arguments(const kernels::StreamedLinearArgs& product,
                                     const kernels::RopeEpilogue& rope = {}) const;

 private:
  /// The address and the shape of weights, and whether they are a gate with its partner. Of x: the
  /// address, how many of its rows are multiplied at a time, and 0.
  using Key = std::tuple<const void*, std::uint32_t, std::uint32_t, bool>;
  static Key key_of(const kernels::Matrix& w, bool is_gate) {
    return {w.data, w.rows, w.columns, is_gate};
  }
  static Key key_of(const void* x, std::uint32_t rows) { return {x, rows, 0, false}; }

  /// The matrix, or its place in bf16 if it is expanded; the second one of a gate lies behind the
  /// first.
  kernels::Matrix as_multiplied(const kernels::Matrix& w, bool is_second = false) const;
  /// Whether the weights are expanded and the largest step has too few rows for that.
  bool is_always_streamed(const kernels::Matrix& w) const;
  void add_weights(const kernels::Matrix& w);
  void add_gate(const kernels::Matrix& gate, const kernels::Matrix& up);
  void add_rows(const void* x, std::uint32_t rows, std::uint32_t columns);
  void add(const Key& key, const TensorMap& map);

  Device device_;
  bool same_bits_;
  bool expands_;                 // some weights have no type that tiles have
  std::uint32_t most_streamed_;  // rows
  std::map<Key, std::size_t> index_;
  std::vector<TensorMap> maps_;
  Buffer<TensorMap> on_device_;
  Buffer<std::byte> workspace_;
  Buffer<std::uint16_t> expanded_;  // the weights of one product at a time
};

/// Whether the device has such products and the weights are of a type and size for them.
bool can_be_tiled(const Device& device, const model::Weights& weights, bool same_bits);
/// The same for one matrix: weights can be tiled if they can be streamed and each matrix can be
/// tiled. For the same bits they are bf16.
bool can_be_tiled(const kernels::Matrix& w, bool same_bits);

/// The most rows that are streamed and not tiled: of models in bf16 or e4m3, of those with weights
/// in f16, and of those with weights that are expanded first. Expanding writes and reads two bytes
/// of each weight, and streaming reads the weights again for every 16 rows, or 8 of some types.
inline constexpr std::uint32_t kMostStreamed = 16;
inline constexpr std::uint32_t kMostStreamedHalf = 8;
inline constexpr std::uint32_t kMostStreamedPacked = 24;

}  // namespace attacca::step
