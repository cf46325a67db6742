// The conformance cases in processes: mpirun or launch.py starts this program, and every process
// runs all tests in the same order as one rank. The report of a failed test names the rank.
#include <gtest/gtest.h>
#include <attacca/mpi.hpp>

#include <optional>

#include "comm/conformance.hpp"
#include "comm/rank_program.hpp"

namespace attacca::test {
namespace {

std::optional<Group> world;

class ProcessConformance : public testing::TestWithParam<ConformanceCase> {};

TEST_P(ProcessConformance, holds) {
  const testing::ScopedTrace trace(__FILE__, __LINE__, "rank " + std::to_string(world->rank()));
  GetParam().run(*world);
  world->barrier().run();
}
INSTANTIATE_TEST_SUITE_P(Processes, ProcessConformance, testing::ValuesIn(kConformance),
                         [](const auto& at) { return std::string(at.param.name); });

/// A host device stands for the GPU, whose memory would be copied likewise.
TEST(ProcessStaged, moves_memory_of_a_device_through_pinned_memory) {
  const Device device = Device::host(1);
  const Group group = world->on(device, Transport::staged);
  EXPECT_EQ(group.backend(), "staged");
  for (const ConformanceCase& conformance : kCollectives) conformance.run(group);
  an_exchange_in_a_graph_of(device, group);
  world->barrier().run();
}

/// Every process also runs each program on threads, and compares its own rank's numbers.
TEST(ProcessPrograms, compute_what_loopback_does) {
  for (std::uint32_t seed = 1000; seed < 1200; ++seed) {
    const RankProgram program = make_program(seed, world->size());
    Numbers expected;
    run_loopback(world->size(), [&](const Group& thread) {
      Numbers numbers = run_program(program, thread);
      if (thread.rank() == world->rank()) expected = std::move(numbers);
    });
    EXPECT_EQ(run_program(program, *world), expected)
        << "seed " << seed << ", rank " << world->rank();
  }
}

}  // namespace
}  // namespace attacca::test

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  attacca::test::world = attacca::join_processes();
  const int ranks = count > 1 ? std::stoi(arguments[1]) : 0;
  if (!attacca::test::world || attacca::test::world->size() != ranks) {
    std::fprintf(stderr, "no launcher started this as one of %d ranks\n", ranks);
    return 1;
  }
  const int result = RUN_ALL_TESTS();
  attacca::test::world.reset();
  return result;
}
