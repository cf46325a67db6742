// attention.hpp: the host body of the attention kernel. The inner loop is in attention_tile.hpp.
#pragma once

#include "kernels/attention/attention.hpp"

namespace attacca::kernels::host {

/// How tokens and heads are cut into items of work. A token's result does not depend on it.
struct AttentionCut {
  std::uint32_t heads;   // of one item, whole row blocks of the output
  std::uint32_t tokens;  // of one item at most, in a row and of one slot
};
AttentionCut attention_cut(const AttentionArgs& args);

/// The items that block `block` of `blocks` computes.
void attention(const AttentionArgs& args, unsigned block, unsigned blocks);

}  // namespace attacca::kernels::host
