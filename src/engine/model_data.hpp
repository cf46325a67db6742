// model_data.hpp: an opened model, which all copies of a llm::Model share.
#pragma once

#include <attacca/llm.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  const text::Tokenizer& require_tokenizer() const;
  /// The tokens of a conversation, up to where the model answers. Throws BadArgument where the
  /// model has no template for it.
  std::vector<std::int32_t> chat(std::span<const Message> messages, std::string_view tools) const;
  ToolFormat tool_format() const;

  /// `path`: a file or folder; empty: the embedded model.
  static std::shared_ptr<const ModelData> open(const std::string& path, const Progress& progress);
};

}  // namespace attacca::llm::detail
