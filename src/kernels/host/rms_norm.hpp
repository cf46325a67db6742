// rms_norm.hpp: the host body of the RMS norm kernel.
#pragma once

#include "kernels/rms_norm.hpp"

namespace attacca::kernels::host {

/// y = x / sqrt(mean(x^2) + epsilon) * weight. `y` may be `x`.
void normalize(const float* x, const float* weight, std::uint32_t columns, float epsilon, float* y);

/// Computes the rows of block `block` of `blocks`.
void rms_norm(const RmsNormArgs& args, unsigned block, unsigned blocks);

}  // namespace attacca::kernels::host
