// models.hpp: how commands name models: nothing for the embedded one, a name that `attacca pull`
// fetched, or a path.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llm/engine_flags.hpp"
#include "model/checkpoint.hpp"
#include "model/config.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::tool {

/// Names of models that `attacca pull` can fetch.
std::vector<std::string> pull_names();

/// Whether a word that stands alone names a model: a known name, an ending of model files, or a
/// slash. Looks at its spelling only, so that the text of a prompt never reaches the file system.
/// Throws BadArgument with the nearest name where it looks like the name of a model that is not
/// known.
bool is_model_word(const std::string& word);

/// Where the files of `name` are; empty for the embedded model. Throws BadArgument with what can be
/// done where there are none.
std::string model_path(const std::string& name);

/// Only its files, or only its tokenizer, which may stand alone.
model::Checkpoint open_checkpoint(const std::string& name);
text::Tokenizer open_tokenizer(const std::string& name);

/// A known shape, and only its first layers if they are given. Throws UsageError if it has fewer.
model::ModelConfig shape_with_layers(const std::string& shape, std::optional<std::uint32_t> layers);

/// Opens it, with a bar where that takes long.
llm::Model open_model(const std::string& name);

}  // namespace attacca::tool
