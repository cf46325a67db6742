// mark_tokens.hpp: rebuilds the token marks of slots from their histories, for penalties. While a
// sequence runs, sample.hpp keeps its marks up to date.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels {

struct SlotHistory {
  std::uint32_t slot;
  std::uint32_t first;   // index of its first token in `words`
  std::uint32_t prompt;  // number of tokens
  std::uint32_t generated;
};

struct MarkTokensArgs {
  const SlotHistory* slots;    // [count], all different
  const std::uint32_t* words;  // REQUIRES: tokens in [0, vocabulary)
  std::uint32_t count;
  std::uint32_t vocabulary;
  std::uint16_t* marks;  // [slots, vocabulary]: see TokenMark
};

const Kernel<MarkTokensArgs>& mark_tokens();
Grid grid_of(const MarkTokensArgs& args, bool is_cuda);

}  // namespace attacca::kernels
