// random_model.hpp: writes a GGUF file of any shape with random weights and a real tokenizer, so a
// size can be tried without its model. Weights made on the device are in random_weights.cpp.
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
  unsigned threads = 0;  // threads that make and write weights; 0: all cores
};

/// The types of matrices by their names in lower case: "bf16", "q4_k", …
std::vector<std::string> weight_type_names();
/// Throws BadArgument with the list of names.
kernels::TensorType weight_type_called(const std::string& name);

/// The type in which a matrix is stored: the wanted one if rows are whole blocks of it, else q8_0,
/// else bf16.
kernels::TensorType stored_type(kernels::TensorType wanted, std::uint64_t columns);

/// Writes the file. The same arguments give the same file, whatever `threads` is. Activations keep
/// their size from layer to layer, and a few tokens are much more probable than the others.
///
/// The tokenizer is that of `tokenizer`, with tokens `<reserved_N>` up to the vocabulary's size.
/// The file gets its name when it is complete. Throws BadArgument if the tokenizer does not fit,
/// and Error with the system's reason if the file cannot be written.
void write_random_model(const RandomModel& model, const formats::GgufFile& tokenizer,
                        const std::filesystem::path& output,
                        const formats::Progress& progress = {});

}  // namespace attacca::model
