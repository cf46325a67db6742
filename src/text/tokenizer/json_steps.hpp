// json_steps.hpp: reads the parts of a tokenizer.json that are chains of steps. A step that is not
// supported is refused by name. The vocabulary is read in json_reader.cpp.
#pragma once

#include <string_view>

#include "text/tokenizer/decoder.hpp"
#include "text/tokenizer/json_node.hpp"
#include "text/tokenizer/normalizer.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"

namespace attacca::text {

Normalizer read_normalizer(const JsonNode& node);
PreTokenizer read_pre_tokenizer(const JsonNode& node);
Decoder read_decoder(const JsonNode& node);

}  // namespace attacca::text
