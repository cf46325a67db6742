// tiled_products.hpp: the tensor maps by which TMA brings boxes of a model's weights and
// activations to products of many rows, in the device's memory.
#pragma once

#include <attacca/memory.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "kernels/linear/sm90_same_bits_linear.hpp"
#include "kernels/linear/sm90_tiled_linear.hpp"
#include "step/step_memory.hpp"

namespace attacca::step {

class TiledProducts {
 public:
  /// For the weights and the activations of this memory. REQUIRES: can_be_tiled. Products have the
  /// same bits as those of few rows where the memory asks for that, else they are faster.
  explicit TiledProducts(const StepMemory& memory);
  static std::size_t bytes_for(const Device& device, const model::ModelConfig& config,
                               bool same_bits);

  bool same_bits() const { return same_bits_; }
  /// The product with its maps, the first one without and the second with same_bits(). REQUIRES: of
  /// these weights and activations.
  kernels::TiledLinearArgs arguments(const kernels::StreamedLinearArgs& product) const;
  kernels::SameBitsLinearArgs same_bits_arguments(const kernels::StreamedLinearArgs& product) const;

 private:
  void add_weights(const kernels::Matrix& w);
  void add_gate(const kernels::Matrix& gate, const kernels::Matrix& up);
  void add_rows(const void* x, std::uint32_t rows, std::uint32_t columns);
  void add(std::pair<const void*, std::uint32_t> key, const TensorMap& map);
  const TensorMap* weights_of(const kernels::StreamedLinearArgs& product) const;

  Device device_;
  bool same_bits_;
  // By the address of weights, or of x and how many of its rows are multiplied at a time.
  std::map<std::pair<const void*, std::uint32_t>, std::size_t> index_;
  std::vector<TensorMap> maps_;
  Buffer<TensorMap> on_device_;
  Buffer<std::byte> workspace_;
};

/// Whether the device has such products and the weights are of a type and size for them.
bool can_be_tiled(const Device& device, const model::Weights& weights, bool same_bits);
/// The two halves of that question: for the device, and for one matrix. Weights can be tiled if
/// they can be streamed and each matrix can be tiled.
bool has_tiled_products(const Device& device, bool same_bits);
bool can_be_tiled(const kernels::Matrix& w);

}  // namespace attacca::step
