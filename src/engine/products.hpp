// products.hpp: which kernel multiplies which matrices, and why it is not a faster one. It asks the
// predicates by which steps are emitted (transformer.cpp, streamed_step.cpp, tiled_products.cpp).
#pragma once

#include <attacca/llm.hpp>
#include <vector>

#include "model/weights.hpp"

namespace attacca::engine {

/// What the answer depends on besides the weights.
struct ProductDevice {
  bool is_cuda = false;
  bool has_tiled = false;  // step::has_tiled_products
  bool same_bits = false;  // EngineOptions::same_bits
};

std::vector<llm::Product> products_of(const model::Weights& weights, const ProductDevice& device);
std::vector<llm::Product> products_of(const model::Weights& weights, const Device& device,
                                      bool same_bits);

}  // namespace attacca::engine
