// prompts.hpp: prompts of plain words, about as many tokens as asked for. The same seed and index
// give the same prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace bench::serve {

/// How many tokens a prompt of words has: so many for each, and those that the server puts around
/// it, such as a chat template's.
struct TokensOfWords {
  double per_word = 1;
  double around = 0;

  /// From two measurements. A line that no tokenizer would draw gives the default.
  static TokensOfWords through(std::size_t words, std::size_t tokens, std::size_t more_words,
                               std::size_t more_tokens);
  /// At least one word.
  std::size_t words_of(unsigned tokens) const;
};

/// `count` words drawn with that seed, with blanks between them. Fewer are a prefix of more.
std::string random_words(std::uint64_t seed, std::size_t count);

class Prompts {
 public:
  Prompts(std::uint64_t seed, unsigned shared_tokens, TokensOfWords measured);

  /// Its beginning is the same for every index, up to the shared tokens.
  std::string make(std::size_t index, unsigned tokens) const;

 private:
  std::uint64_t seed_;
  TokensOfWords measured_;
  std::size_t shared_words_;
  std::string shared_;
};

}  // namespace bench::serve
