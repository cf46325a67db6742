// random_model.hpp: a GGUF file of any shape whose weights mean nothing, with a tokenizer that
// does, so a model can be tried at a size whose files nobody has at hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/checkpoint.hpp"

namespace attacca::model {

struct RandomModel {
  ModelConfig config;  // shapes.hpp has some
  kernels::TensorType weights = kernels::TensorType::bf16;
  std::uint64_t seed = 1;
  unsigned threads = 0;  // that make and write weights; 0: all cores
};

/// The types of matrices by their names in lower case: "bf16", "q4_k", …
std::vector<std::string> weight_type_names();
/// Throws BadArgument with the names there are.
kernels::TensorType weight_type_called(const std::string& name);

/// Matrices whose rows are no whole blocks of a type are stored as this one.
kernels::TensorType stored_type(kernels::TensorType wanted, std::uint64_t columns);

/// Writes the file; the same one for the same arguments but `threads`. Activations keep their size
/// from layer to layer, and a few tokens are much more probable than the others.
///
/// The tokenizer is that of `tokenizer`, with tokens `<reserved_N>` up to the vocabulary's size.
/// The file appears under its name when it is whole. Throws BadArgument where the tokenizer does
/// not fit, Error with the system's reason where the file cannot be written.
void write_random_model(const RandomModel& model, const formats::GgufFile& tokenizer,
                        const std::filesystem::path& output,
                        const formats::Progress& progress = {});

}  // namespace attacca::model
