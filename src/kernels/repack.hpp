// repack.hpp: converts weights to a type with 32 elements a block, which streamed_linear.hpp reads.
// It runs once when a model is loaded.
//
// Q4_K becomes Q4_1: the same quants, with scales and offsets rounded to halves. Any type becomes
// Q8_0: its elements are rounded to 96 to 128 steps of a block's largest, so that they change
// least.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/matrix.hpp"

namespace attacca::kernels {

struct RepackArgs {
  Matrix from;  // its columns are a multiple of 32
  void* to;     // [from.rows, from.columns] of `type`
  TensorType type;
};

/// Whether there is such a conversion: from Q4_K to Q4_1, or from any type to Q8_0.
bool can_repack(TensorType from, TensorType to);

const Kernel<RepackArgs>& repack();
/// Throws BadArgument if it cannot be repacked.
Grid grid_of(const RepackArgs& args, bool is_cuda);

}  // namespace attacca::kernels
