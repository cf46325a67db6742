// seeded.hpp: makes rapidcheck try the same cases every time, unless RC_PARAMS is set. Property
// tests include it.
#pragma once

#include <rapidcheck.h>
#include <cstdlib>

namespace attacca::test {
/// rapidcheck reads the variable at the first check.
inline const bool kIsSeeded = ::setenv("RC_PARAMS", "seed=7 max_success=200", 0) == 0;
}  // namespace attacca::test
