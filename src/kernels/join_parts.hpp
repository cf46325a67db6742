// join_parts.hpp: the logits of a model whose head is split over ranks, from the parts of all.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/activations.hpp"

namespace attacca::kernels {

/// Every rank has `part` columns, and the last one what is left.
struct JoinPartsArgs {
  const float* parts;  // by rank, at distances of capacity * part: [rows, the rank's columns]
  RowCount rows;
  std::uint32_t part;
  std::uint32_t columns;  // of all ranks
  float* y;               // [rows, columns]
};

const Kernel<JoinPartsArgs>& join_parts();
Grid grid_of(const JoinPartsArgs& args, bool is_cuda);

}  // namespace attacca::kernels
