// mark_tokens.hpp: what a slot's penalties must know of each token, from its history.
#pragma once

#include <attacca/kernel.hpp>

#include "kernels/sample/sample.hpp"

namespace attacca::kernels {

struct SlotHistory {
  std::uint32_t slot;
  std::uint32_t first;   // of `words`: its tokens
  std::uint32_t prompt;  // tokens
  std::uint32_t generated;
};

struct MarkTokensArgs {
  const SlotHistory* slots;    // [count], each another slot
  const std::uint32_t* words;  // REQUIRES: tokens in [0, vocabulary)
  std::uint32_t count;
  std::uint32_t vocabulary;
  std::uint16_t* marks;  // [slots, vocabulary]: see TokenMark
};

const Kernel<MarkTokensArgs>& mark_tokens();
Grid grid_of(const MarkTokensArgs& args, bool is_cuda);

}  // namespace attacca::kernels
