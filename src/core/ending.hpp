// ending.hpp: why a sequence ended, as the sampling kernel writes it and the scheduling policy
// reads it.
#pragma once

#include <cstdint>

namespace attacca {

/// none: the sequence goes on. not_finite: a logit was infinite or not a number.
enum class Ending : std::uint32_t { none, stop_token, length, not_finite };

}  // namespace attacca
