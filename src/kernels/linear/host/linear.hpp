// linear.hpp: the host bodies of linear and gated_linear. A block of the grid computes some tiles
// of 32 weight rows for all rows of the step.
#pragma once

#include "kernels/linear/linear.hpp"

namespace attacca::kernels::host {

void linear(const LinearArgs& args, unsigned block, unsigned blocks);
void gated_linear(const GatedLinearArgs& args, unsigned block, unsigned blocks);

/// Tiles of a matrix.
constexpr std::uint32_t tiles_of(const Matrix& w) { return (w.rows + 31) / 32; }

}  // namespace attacca::kernels::host
