// scrambled.hpp: a chain of dependent arithmetic of any length, so that kernels take a chosen time.
#pragma once

#include <attacca/target.hpp>
#include <cstdint>

namespace bench {

ATTACCA_HD constexpr std::uint32_t scrambled(std::uint32_t x, unsigned turns) {
  for (unsigned at = 0; at < turns; ++at) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  return x;
}

}  // namespace bench
