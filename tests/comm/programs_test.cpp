// Random programs of exchanges on loopback, against an interpreter that has no ranks.
#include <gtest/gtest.h>

#include "comm/rank_program.hpp"

namespace attacca::test {
namespace {

TEST(RankPrograms, loopback_computes_what_the_interpreter_does) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    const int ranks = 1 + static_cast<int>(seed % 5);
    const RankProgram program = make_program(seed, ranks);
    const std::vector<Numbers> expected = interpret(program);
    run_loopback(ranks, [&](const Group& world) {
      const Numbers got = run_program(program, world);
      EXPECT_EQ(got, expected[static_cast<std::size_t>(world.rank())])
          << "seed " << seed << ", rank " << world.rank() << " of " << ranks;
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace attacca::test
