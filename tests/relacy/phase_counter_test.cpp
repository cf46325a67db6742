// Tests of PhaseCounter under relacy: nobody reads a phase's results before they are written,
// nobody overwrites what others still read, and the next launch finds the counter as the first did.
#include "relacy/relacy_memory.hpp"

#include "kernels/persistent/phase_counter.hpp"

namespace attacca::test {
namespace {

/// Three blocks run three phases. A phase reads what the phase before wrote, and
/// writes to the memory that the one before that read. Block 2 has no work in the second phase.
template <Flaw kFlaw>
struct Launches : rl::test_suite<Launches<kFlaw>, 3> {
  static constexpr unsigned kBlocks = 3;
  static constexpr unsigned kPhases = 3;
  using Memory = RelacyMemory<kFlaw>;
  kernels::PhaseCounter<Memory> counter;
  typename Memory::template Plain<unsigned> cells[2][kBlocks];

  static unsigned workers(unsigned phase) { return phase == 1 ? kBlocks - 1 : kBlocks; }

  void before() {
    counter.reset();
    for (auto& side : cells)
      for (auto& cell : side) cell.write(0);
  }
  void thread(unsigned block) {
    unsigned wanted = 0;
    for (unsigned phase = 0; phase < kPhases; ++phase) {
      if (block < workers(phase)) {
        while (!counter.has(wanted)) rl::yield(1, RL_INFO);
        if (phase > 0)
          for (unsigned other = 0; other < workers(phase - 1); ++other)
            RL_ASSERT(cells[(phase - 1) % 2][other].read() == phase);
        cells[phase % 2][block].write(phase + 1);
        if (phase + 1 < kPhases) counter.arrive();
      }
      if (phase + 1 < kPhases) wanted += workers(phase);
    }
    counter.leave(kBlocks);
  }
  void after() { RL_ASSERT(counter.is_reset()); }
};

TEST(RelacyPhaseCounter, a_phase_sees_the_one_before_and_the_counter_is_left_at_zero) {
  EXPECT_TRUE(holds_at_random<Launches<Flaw::none>>(50'000));
  EXPECT_TRUE(holds_for_all<Launches<Flaw::none>>(2));
  EXPECT_TRUE(is_caught<Launches<Flaw::no_release>>());
  EXPECT_TRUE(is_caught<Launches<Flaw::no_acquire>>());
  EXPECT_TRUE(is_caught<Launches<Flaw::torn_add>>());
}

}  // namespace
}  // namespace attacca::test
