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

/// More than two pieces, the last of which is short. Launched twice, so memory is used again.
TEST(ProcessStaged, long_exchanges_in_graphs_go_in_pieces) {
  const Device device = Device::host(2);
  const Group group = world->on(device, Transport::staged);
  const std::size_t count = 700'001;
  Buffer<float> x(device, count), y(device, count);
  Graph graph(device, "pieces");
  const auto sum = group.all_reduce<float>(x.span(), y.span()).add_to(graph);
  group.broadcast(x.span(), world->size() - 1).add_to(graph).after(sum);
  Exec exec = graph.instantiate();
  const Stream stream(device);
  for (const int turn : {0, 1}) {
    x.write(values_of(world->rank(), count, static_cast<std::size_t>(turn)));
    exec.launch(stream);
    stream.synchronize();
    EXPECT_EQ(y.read(), sum_over(world->size(), count, static_cast<std::size_t>(turn)));
    EXPECT_EQ(x.read(), values_of(world->size() - 1, count, static_cast<std::size_t>(turn)));
  }
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
