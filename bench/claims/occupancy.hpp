// occupancy.hpp: the kernels of the benchmark `occupancy`, defined in occupancy.cu.
#pragma once

#include <attacca/kernel.hpp>
#include <cstdint>

#include "claims/scrambled.hpp"

namespace bench::occupancy {

/// out[index] = the index, scrambled `turns` times: a long chain in which each step waits for the
/// one before.
struct ScrambleArgs {
  std::uint32_t* out;
  unsigned turns;
};
extern const attacca::Kernel<ScrambleArgs> scramble;

/// sums[thread] = the sum of the words it reads, in loads of 16 bytes; the threads read all of
/// `words`, whose count is a multiple of 16 times their number.
struct ReadArgs {
  const std::uint32_t* words;
  std::uint64_t count;
  std::uint64_t* sums;
};
extern const attacca::Kernel<ReadArgs> read_one_at_a_time;
extern const attacca::Kernel<ReadArgs> read_four_at_a_time;

}  // namespace bench::occupancy
