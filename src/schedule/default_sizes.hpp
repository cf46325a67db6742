// default_sizes.hpp: the step sizes, in tokens, that have graphs unless others are asked for.
#pragma once

#include <vector>

namespace attacca::schedule {

/// 1, 2, 4, 8, then steps of an eighth of the next power of two, at least 8: little is padded.
std::vector<unsigned> default_decode_sizes(unsigned slots);

/// Powers of two from 8 on; from 64 on also the numbers halfway between them. Steps that prompts
/// share with decodes often have `decode_step_tokens`, so that is a size as well.
std::vector<unsigned> default_mixed_sizes(unsigned most, unsigned decode_step_tokens);

}  // namespace attacca::schedule
