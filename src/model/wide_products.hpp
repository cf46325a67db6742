// wide_products.hpp: what products of many rows need besides their arguments on GPUs that multiply
// whole tiles: maps of a model's weights and of the activations they meet, in the device's memory.
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "kernels/wide_linear.hpp"
#include "model/transformer.hpp"

namespace attacca::model {

class WideProducts {
 public:
  /// REQUIRES: can_be_wide. `activations`: laid out for `shape`, the largest.
  WideProducts(const Device& device, const ModelConfig& config, const Weights& weights,
               const StepActivations& activations, const StepShape& shape);
  static std::size_t bytes_for(const Device& device, const ModelConfig& config);

  /// The product with its maps. REQUIRES: of these weights and activations.
  kernels::WideLinearArgs of(const kernels::ThinLinearArgs& product) const;

 private:
  void add_weights(const kernels::Matrix& w);
  void add_gate(const kernels::Matrix& gate, const kernels::Matrix& up);
  void add_rows(const void* x, std::uint32_t rows, std::uint32_t columns);
  void add(std::pair<const void*, std::uint32_t> key, const TensorMap& map);

  Device device_;
  // By the address of weights, or of x and how many of its rows are multiplied at a time.
  std::map<std::pair<const void*, std::uint32_t>, std::size_t> index_;
  std::vector<TensorMap> maps_;
  Buffer<TensorMap> on_device_;
  Buffer<std::byte> workspace_;
};

/// Whether the device multiplies whole tiles and the weights are of a type and size for it.
bool can_be_wide(const Device& device, const Weights& weights);

}  // namespace attacca::model
