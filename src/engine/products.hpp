// products.hpp: tells which kernel multiplies which matrices, and why not a faster one. It asks the
// same predicates that the steps ask (plain_step.cpp, streamed_step.cpp, tiled_products.cpp). It
// launches nothing.
#pragma once

#include <attacca/llm.hpp>
#include <vector>

#include "model/weights.hpp"

namespace attacca::engine {

/// Properties of the device and the options that the answer depends on.
struct ProductDevice {
  bool is_cuda = false;
  bool has_tiled = false;  // kernels::has_tiled_linear
  bool same_bits = false;  // EngineOptions::same_bits
};

std::vector<llm::Product> products_of(const model::Weights& weights, const ProductDevice& device);
std::vector<llm::Product> products_of(const model::Weights& weights, const Device& device,
                                      bool same_bits);

}  // namespace attacca::engine
