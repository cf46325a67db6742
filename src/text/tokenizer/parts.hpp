// parts.hpp: what a tokenizer is made of, put together by the readers of tokenizer.json and of
// GGUF's vocabularies.
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
  AddedTokens added;             // looked for in the text as it is
  AddedTokens normalized_added;  // looked for in normalized text
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<Bpe> bpe;  // of `tokens`
  Decoder decoder;
  std::vector<std::int32_t> prefix, suffix;  // what add_special puts around
  std::int32_t bos = -1, eos = -1, unknown = -1, pad = -1;

  TokenizerParts() = default;
  TokenizerParts(const TokenizerParts&) = delete;  // `bpe` points at `tokens`

  /// Sorts added tokens into the two kinds. REQUIRES: the normalizer is set.
  void set_added(std::vector<AddedToken> tokens_to_add);
};

}  // namespace attacca::text
