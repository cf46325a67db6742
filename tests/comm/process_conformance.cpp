// The conformance cases in processes: mpirun or launch.py starts this program, and every process
// runs all tests in the same order as one rank. The report of a failed test names the rank.
#include <gtest/gtest.h>
#include <attacca/mpi.hpp>

#include <optional>

#include "comm/device_conformance.hpp"
#include "comm/device_program.hpp"
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

void has_collectives(const Device& device, const Group& group, const char* backend) {
  EXPECT_EQ(group.backend(), backend);
  for (const ConformanceCase& conformance : kCollectives) conformance.run(group);
  an_exchange_in_a_graph_of(device, group);
  programs_give_what_the_interpreter_gives(device, group, 50);
}

/// A host device stands for the GPU, whose memory would be copied likewise.
TEST(ProcessStaged, moves_memory_of_a_device_through_pinned_memory) {
  const Device device = Device::host(1);
  const Group group = world->on(device, Transport::staged);
  has_collectives(device, group, "staged");
  world->barrier().run();
}

/// Memory of a host device is the host's, which every wire takes.
TEST(ProcessDirect, moves_memory_of_a_device_without_a_copy_between) {
  const Device device = Device::host(1);
  const Group group = world->on(device, Transport::direct);
  has_collectives(device, group, "direct");
  collectives_give_what_the_reference_gives(device, group);
  exchanges_in_graphs_run_at_every_launch(device, group);
  world->barrier().run();
}

TEST(ProcessDirect, long_sums_follow_the_work_of_their_stream) {
  const Device device = Device::host(1);
  const Group group = world->on(device, Transport::direct);
  const std::size_t count = 300'001;
  const Buffer<float> given(device, values_of(world->rank(), count));
  Buffer<float> x(device, count);
  const Stream stream(device);
  for (const int turn : {0, 1}) {
    stream.copy<float>(x.span(), given.span());
    group.all_reduce(x.span()).enqueue(stream);
    stream.synchronize();
    EXPECT_EQ(x.read(), sum_over(world->size(), count)) << "turn " << turn;
  }
  world->barrier().run();
}

TEST(ProcessDirect, refuses_what_is_no_collective) {
  const Device device = Device::host(1);
  const Group group = world->on(device, Transport::direct);
  Buffer<float> x(device, 4);
  EXPECT_THROW(group.send(x.span(), 0).run(), BadArgument);
  EXPECT_THROW(group.symmetric<float>(4), BadArgument);
  world->barrier().run();
}

/// Each needs more pinned memory than the one before, which then must stay until it has copied.
TEST(ProcessStaged, longer_exchanges_leave_shorter_ones_in_front_their_memory) {
  const Device device = Device::host(1);
  const Stream stream(device);
  std::vector<Buffer<float>> sums;
  {
    const Group group = world->on(device, Transport::staged);
    for (std::size_t count = 10; count < 100'000; count *= 7) {
      sums.emplace_back(device, values_of(world->rank(), count));
      group.all_reduce(sums.back().span()).enqueue(stream);
    }
  }
  stream.synchronize();
  for (const Buffer<float>& sum : sums)
    EXPECT_EQ(sum.read(), sum_over(world->size(), sum.size())) << sum.size();
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
