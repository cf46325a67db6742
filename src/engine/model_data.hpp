// model_data.hpp: what a llm::Model shares between its copies.
#pragma once

#include <attacca/llm.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint.hpp"
#include "text/chat/chat_template.hpp"
#include "text/tokenizer/tokenizer.hpp"

namespace attacca::llm::detail {

struct ModelData {
  model::Checkpoint checkpoint;
  std::optional<text::Tokenizer> tokenizer;  // none: the files have none, tokens only
  std::optional<text::ChatTemplate> chat_template;
  std::string chat_problem;  // why the template that is there cannot be used
  std::vector<std::string> notes;

  const model::ModelConfig& config() const { return checkpoint.config(); }
  /// Throws BadArgument where the model came without one.
  const text::Tokenizer& words() const;
};

}  // namespace attacca::llm::detail
