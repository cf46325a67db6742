// models.hpp: how commands name models: nothing for the embedded one, a name that `attacca pull`
// fetched, or a path.
#pragma once

#include <attacca/llm.hpp>
#include <string>

#include "llm/engine_flags.hpp"
#include "model/checkpoint.hpp"
#include "model/tokenizer/tokenizer.hpp"

namespace attacca::tool {

/// Whether `name` looks like a model rather than a prompt: it exists, is known, or ends as one.
bool is_model_name(const std::string& name);

/// Whether `attacca pull` can fetch a model of this name.
bool can_pull(const std::string& name);

/// Where the files of `name` are; empty for the embedded model. Throws BadArgument with what can be
/// done where there are none.
std::string model_path(const std::string& name);

/// Only its files, or only its tokenizer, which may stand alone.
model::Checkpoint open_checkpoint(const std::string& name);
model::Tokenizer open_tokenizer(const std::string& name);

/// Opens it, with a bar where that takes long.
llm::Model open_model(const std::string& name);

}  // namespace attacca::tool
