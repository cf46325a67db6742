// attention_reference.hpp: attention of one query in double precision, for the host bodies of
// kernels that are made for CUDA. It is a reference, not fast; host/attention.hpp is.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/attention/paged_kv.hpp"
#include "kernels/quantization.hpp"

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

/// Stores one head's result in bf16, and its rounding error where y_rest is wanted.
inline void store_attended(const std::vector<double>& sum, std::uint64_t head, std::uint16_t* y,
                           std::uint16_t* y_rest) {
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const std::uint64_t at = head * sum.size() + i;
    y[at] = bfloat_of_float(static_cast<float>(sum[i]));
    if (y_rest) y_rest[at] = bfloat_of_float(static_cast<float>(sum[i] - float_of_bfloat(y[at])));
  }
}

}  // namespace attacca::kernels
