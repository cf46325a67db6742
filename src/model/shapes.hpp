// shapes.hpp: the configurations of well-known models, for models with random weights.
#pragma once

#include <string>
#include <vector>

#include "model/config.hpp"

namespace attacca::model {

/// "llama-1b", …
std::vector<std::string> shape_names();
/// Throws attacca::BadArgument with the list of names.
ModelConfig shape_called(const std::string& name);

/// Multiply-adds of one token in the matrices of all layers, without attention and the head.
double parameters_per_token(const ModelConfig& config);

}  // namespace attacca::model
