// json_steps.hpp: the parts of a tokenizer.json that are chains of steps. What is not supported is
// refused by name.
#pragma once

#include <string_view>

#include "model/tokenizer/decoder.hpp"
#include "model/tokenizer/json_node.hpp"
#include "model/tokenizer/normalizer.hpp"
#include "model/tokenizer/pre_tokenizer.hpp"

namespace attacca::model {

Normalizer read_normalizer(const JsonNode& node);
PreTokenizer read_pre_tokenizer(const JsonNode& node);
Decoder read_decoder(const JsonNode& node);

}  // namespace attacca::model
