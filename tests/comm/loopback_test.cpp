// Tests of loopback, the reference: the conformance cases with 1 to 5 ranks, and what Group refuses
// before it talks to anyone.
#include <gmock/gmock.h>

#include "comm/conformance.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class LoopbackConformance : public testing::TestWithParam<ConformanceCase> {};

TEST_P(LoopbackConformance, holds_for_one_to_five_ranks) {
  for (const int ranks : {1, 2, 3, 4, 5}) run_loopback(ranks, GetParam().run);
}
INSTANTIATE_TEST_SUITE_P(Loopback, LoopbackConformance, testing::ValuesIn(kConformance),
                         [](const auto& at) { return std::string(at.param.name); });

TEST(Loopback, a_group_knows_its_rank_size_backend_and_deadline) {
  const std::vector<Group> groups = make_loopback(3, {.deadline = std::chrono::seconds(7)});
  EXPECT_EQ(groups[2].rank(), 2);
  EXPECT_EQ(groups[2].size(), 3);
  EXPECT_EQ(groups[2].backend(), "loopback");
  EXPECT_EQ(groups[2].deadline(), std::chrono::seconds(7));
}

TEST(Loopback, the_exception_that_came_first_comes_out_of_run_loopback) {
  const auto run = [] {
    run_loopback(3, [](const Group& group) {
      if (group.rank() == 1) throw BadArgument("no weights here");
      group.barrier().run();
    });
  };
  EXPECT_THAT(run, ThrowsMessage<BadArgument>("no weights here"));
}

TEST(Loopback, symmetric_memory_outlives_its_first_owner) {
  run_loopback(2, [](const Group& group) {
    const SymmetricBuffer<int> kept = group.symmetric<int>(3);
    {
      const SymmetricBuffer<int> dropped = group.symmetric<int>(3);
      if (group.rank() == 1) {
        const std::vector<int> values{1, 2, 3};
        group.put<int>(dropped.span(), values, 0).run();
      }
    }
    group.barrier().run();
    EXPECT_EQ(kept.span()[0], 0);
  });
}

TEST(Loopback, bad_arguments_are_refused_without_a_word_to_other_ranks) {
  const std::vector<Group> groups = make_loopback(2);
  const Group& group = groups[0];
  std::vector<float> three(3), four(4);
  std::uint64_t word = 0;
  EXPECT_THAT([&] { make_loopback(0); }, ThrowsMessage<BadArgument>(HasSubstr("0 ranks")));
  EXPECT_THAT([&] { run_loopback(2, nullptr); },
              ThrowsMessage<BadArgument>(HasSubstr("ranks without a function")));
  EXPECT_THAT([&] { make_loopback(2, {.deadline = std::chrono::nanoseconds(0)}); },
              ThrowsMessage<BadArgument>(HasSubstr("deadline of 0 ns")));
  EXPECT_THAT(
      [&] { group.broadcast(std::span(three), 2); },
      ThrowsMessage<BadArgument>(HasSubstr("root rank 2 is not in the group; give 0 to 1")));
  EXPECT_THAT([&] { group.all_reduce<float>(three, std::span(four)); },
              ThrowsMessage<BadArgument>(HasSubstr("from 3 to 4 elements")));
  EXPECT_THAT([&] { group.all_gather<float>(three, std::span(four)); },
              ThrowsMessage<BadArgument>(HasSubstr("must have 6 elements")));
  EXPECT_THAT([&] { group.reduce_scatter<float>(three, std::span(four)); },
              ThrowsMessage<BadArgument>(HasSubstr("must have 8 elements")));
  EXPECT_THAT(
      [&] {
        group.all_reduce<float>(std::span(four).subspan(0, 3), std::span(four).subspan(1, 3));
      },
      ThrowsMessage<BadArgument>(HasSubstr("overlap")));
  EXPECT_THAT([&] { group.send(std::span(three), 0); },
              ThrowsMessage<BadArgument>(HasSubstr("rank 0 sends to itself")));
  EXPECT_THAT([&] { group.receive(std::span(three), -1); },
              ThrowsMessage<BadArgument>(HasSubstr("rank -1 is not in the group")));
  EXPECT_THAT([&] { group.put<float>(std::span(three), three, 1); },
              ThrowsMessage<BadArgument>(HasSubstr("no symmetric memory of 12 bytes")));
  EXPECT_THAT([&] { group.wait(&word, 1, 1); },
              ThrowsMessage<BadArgument>(HasSubstr("the signal is at")));
  EXPECT_THAT([&] { group.subgroup({1}); },
              ThrowsMessage<BadArgument>(HasSubstr("rank 0 is not in the subgroup")));
  EXPECT_THAT(
      [&] {
        group.subgroup({0, 1, 0});
      },
      ThrowsMessage<BadArgument>(HasSubstr("rank 0 is in the subgroup twice")));
}

TEST(Loopback, symmetric_memory_of_another_group_is_refused) {
  run_loopback(2, [](const Group& group) {
    const Group other = group.subgroup({0, 1});
    const SymmetricBuffer<int> memory = group.symmetric<int>(4);
    EXPECT_THAT([&] { other.put<int>(memory.span(), std::vector<int>(4), 0); },
                ThrowsMessage<BadArgument>(HasSubstr("no symmetric memory")));
  });
}

TEST(Loopback, an_exchange_on_a_cuda_stream_is_refused_by_name) {
  if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU here";
  const std::vector<Group> groups = make_loopback(1);
  Graph graph(Device::cuda(0), "step");
  EXPECT_THAT([&] { groups[0].barrier().add_to(graph); },
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("loopback"), HasSubstr("cuda:0"))));
}

}  // namespace
}  // namespace attacca::test
