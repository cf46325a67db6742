// rounded_file.hpp: a model's file with its matrices rounded to another type.
#pragma once

#include <filesystem>

#include "model/checkpoint.hpp"

namespace bench {

/// Writes the model with its matrices as BF16, F16, Q8_0, Q4_0 or Q4_1. REQUIRES: `from` is a GGUF
/// file. Throws BadArgument if a matrix has rows that are no whole blocks of the type.
void write_rounded(const attacca::model::Checkpoint& from, attacca::kernels::TensorType type,
                   const std::filesystem::path& to);

}  // namespace bench
