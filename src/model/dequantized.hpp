// dequantized.hpp: writes a model's file with its matrices in another type, and in float32. Tests
// and benchmarks compare that with the file itself, to see what kernels for packed weights add to
// the rounding of weights.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "model/checkpoint.hpp"
#include "model/weights.hpp"

namespace attacca::model {

/// What a matrix becomes.
struct NewMatrix {
  kernels::TensorType type;
  std::vector<std::byte> data;
};
/// Writes a copy of the file with each matrix as `convert` has it; `own_head`: where the embedding
/// is the head too, the copy has that as a matrix of its own, "output.weight". Overwrites `to`.
/// REQUIRES: `from` is a GGUF file.
using Convert = std::function<NewMatrix(const std::string& name, const formats::Tensor& tensor)>;
void write_converted(const Checkpoint& from, const std::filesystem::path& to, bool own_head,
                     const Convert& convert);

/// `format`: the elements are those of the file, or those that a GPU has after it converted the
/// file to fp8. Overwrites `to`. REQUIRES: `from` is a GGUF file.
void write_dequantized(const Checkpoint& from, WeightFormat format,
                       const std::filesystem::path& to);

/// The elements of a matrix, row by row, times the scales of their rows.
std::vector<float> elements_of(const kernels::Matrix& matrix);

}  // namespace attacca::model
