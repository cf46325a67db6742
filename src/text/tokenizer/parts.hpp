// parts.hpp: the parts of a tokenizer. json_reader.cpp and from_vocabulary.cpp fill them in;
// tokenizer.cpp encodes and decodes with them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/added_tokens.hpp"
#include "text/tokenizer/bpe.hpp"
#include "text/tokenizer/decoder.hpp"
#include "text/tokenizer/normalizer.hpp"
#include "text/tokenizer/pre_tokenizer.hpp"
#include "text/tokenizer/token_table.hpp"

namespace attacca::text {

struct TokenizerParts {
  TokenTable tokens;
  std::vector<bool> is_special;  // by id
  AddedTokens added;             // looked for in the original text
  AddedTokens normalized_added;  // looked for in normalized text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<Bpe> bpe;  // points to `tokens`
  Decoder decoder;
  std::vector<std::int32_t> prefix, suffix;  // add_special puts them around a text
  std::int32_t bos = -1, eos = -1, unknown = -1, pad = -1;

  TokenizerParts() = default;
  TokenizerParts(const TokenizerParts&) = delete;  // `bpe` would point to the other's `tokens`

  /// Divides added tokens between `added` and `normalized_added`. REQUIRES: the normalizer is set.
  void set_added(std::vector<AddedToken> tokens_to_add);
};

}  // namespace attacca::text
