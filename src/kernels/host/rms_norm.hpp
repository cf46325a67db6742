// rms_norm.hpp: root-mean-square normalization on the host.
#pragma once

#include "kernels/rms_norm.hpp"

namespace attacca::kernels::host {

/// y = x / sqrt(mean(x^2) + epsilon) * weight. `y` may be `x`.
void normalize(const float* x, const float* weight, std::uint32_t columns, float epsilon, float* y);

/// The rows that block `block` of `blocks` computes.
void rms_norm(const RmsNormArgs& args, unsigned block, unsigned blocks);

}  // namespace attacca::kernels::host
