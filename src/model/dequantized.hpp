// dequantized.hpp: writes a model's file with every matrix in float32. Tests and benchmarks compare
// it with the file itself, to see what kernels for packed weights add to the rounding of weights.
#pragma once

#include <filesystem>

#include "model/checkpoint.hpp"
#include "model/weights.hpp"

namespace attacca::model {

/// `format`: the elements are those of the file, or those that a GPU has after it converted the
/// file to fp8. Overwrites `to`. REQUIRES: `from` is a GGUF file.
void write_dequantized(const Checkpoint& from, WeightFormat format,
                       const std::filesystem::path& to);

/// The elements of a matrix, row by row, times the scales of their rows.
std::vector<float> elements_of(const kernels::Matrix& matrix);

}  // namespace attacca::model
