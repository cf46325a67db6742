// attention_reference.hpp: what one query sees, in doubles: the host's body of kernels that are
// made for CUDA.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/paged_kv.hpp"

namespace attacca::kernels {

/// Attention over positions [first, last]. REQUIRES: keys and values in f32.
inline std::vector<double> attended(const PagedKv& kv, const std::vector<double>& query,
                                    double scale, std::uint32_t slot, std::uint32_t kv_head,
                                    std::uint32_t first, std::uint32_t last) {
  std::vector<double> weights;
  for (std::uint32_t at = first; at <= last; ++at) {
    const float* key = kv.keys_as<float>() + kv.offset(slot, at, kv_head);
    double score = 0;
    for (std::uint32_t i = 0; i < kv.head_size; ++i) score += query[i] * key[i];
    weights.push_back(score * scale);
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - max);
  std::vector<double> sum(kv.head_size);
  for (std::uint32_t at = first; at <= last; ++at) {
    const float* value = kv.values_as<float>() + kv.offset(slot, at, kv_head);
    for (std::uint32_t i = 0; i < kv.head_size; ++i)
      sum[i] += weights[at - first] / total * value[i];
  }
  return sum;
}

}  // namespace attacca::kernels
