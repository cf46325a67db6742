// seeded.hpp: included by property tests, so that rapidcheck tries the same cases every time,
// unless RC_PARAMS says otherwise.
#pragma once

#include <rapidcheck.h>
#include <cstdlib>

namespace attacca::test {
/// rapidcheck reads it at the first check.
inline const bool kIsSeeded = ::setenv("RC_PARAMS", "seed=7 max_success=200", 0) == 0;
}  // namespace attacca::test
