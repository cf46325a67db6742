// Tests of kernels whose blocks wait for each other: they run if all of their blocks fit on the
// device at once, and are refused if they may not fit.
#include <gmock/gmock.h>

#include "support/kernels.hpp"
#include "support/meeting_kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint64_t kPatience = 20'000'000'000;
constexpr Dim3 kThreads{32};

class SmallBlocksWait : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    counts_.emplace(device(), std::vector<std::uint32_t>(3));
    most_ = static_cast<unsigned>(occupancy(device(), meet, Grid{{1}, kThreads}).resident_blocks);
  }
  void TearDown() override {
    counts_.reset();
    OnEachDevice::TearDown();
  }
  MeetingCount* count(unsigned index) {
    return reinterpret_cast<MeetingCount*>(counts_->data() + index);
  }
  MeetArgs meeting(std::uint64_t patience = kPatience) { return {count(0), count(1), patience}; }
  Grid blocks(unsigned number) const { return Grid{{number}, kThreads}; }
  unsigned most() const { return most_; }
  unsigned met() { return counts_->read()[1]; }

 private:
  std::optional<Buffer<std::uint32_t>> counts_;
  unsigned most_ = 0;
};
ATTACCA_ON_EACH_DEVICE(SmallBlocksWait);

TEST_P(SmallBlocksWait, as_many_blocks_as_fit_meet) {
  Graph graph(device());
  graph.kernel(meet, blocks(most()), meeting());
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(met(), most());
  run(exec);
  EXPECT_EQ(met(), 2 * most());
}

TEST_P(SmallBlocksWait, as_many_blocks_as_fit_meet_on_a_stream) {
  stream().kernel(meet, blocks(most()), meeting());
  stream().synchronize();
  EXPECT_EQ(met(), most());
}

TEST_P(SmallBlocksWait, one_block_more_is_refused) {
  Graph graph(device());
  graph.kernel(meet, blocks(most() + 1), meeting()).named("crowd");
  expect_refused(graph, {Rule::blocks_may_not_fit, "crowd",
                         "use at most " + std::to_string(most()) + " blocks"});
}

TEST_P(SmallBlocksWait, one_block_more_is_refused_in_a_body) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  graph.if_("if", on,
            [&](Graph& body) { body.kernel(meet, blocks(most() + 1), meeting()).named("crowd"); });
  expect_refused(graph, {Rule::blocks_may_not_fit, "crowd", "or smaller ones"});
}

TEST_P(SmallBlocksWait, one_block_more_is_refused_on_a_stream) {
  expect_throws([&] { stream().kernel(meet, blocks(most() + 1), meeting()); },
                {Rule::blocks_may_not_fit, "meet", "wait for each other"});
  stream().synchronize();
  EXPECT_EQ(met(), 0u);
}

TEST_P(SmallBlocksWait, an_exec_that_is_given_too_many_blocks_stays_as_it_was) {
  Graph graph(device());
  const auto node = graph.kernel(meet, blocks(most()), meeting()).named("crowd");
  Exec exec = graph.instantiate();
  expect_throws([&] { exec.set(node, blocks(most() + 1), meeting()); },
                {Rule::blocks_may_not_fit, "crowd", "use at most"});
  Graph larger(device());
  larger.kernel(meet, blocks(most() + 1), meeting()).named("crowd");
  expect_throws([&] { exec.update(larger); }, {Rule::blocks_may_not_fit, "crowd", "use at most"});
  run(exec);
  EXPECT_EQ(met(), most());
}

TEST_P(SmallBlocksWait, fewer_blocks_can_be_set) {
  Graph graph(device());
  const auto node = graph.kernel(meet, blocks(most()), meeting());
  Exec exec = graph.instantiate();
  exec.set(node, blocks(1), meeting());
  run(exec);
  EXPECT_EQ(met(), 1u);
}

TEST_P(SmallBlocksWait, a_host_body_that_does_not_wait_takes_any_number) {
  if (is_cuda()) GTEST_SKIP() << "about the host";
  for (const Kernel<MeetArgs>& kernel : {meet_on_gpu, meet_on_gpu_by_block}) {
    Graph graph(device());
    graph.kernel(kernel, blocks(100), meeting());
    run(graph);
  }
  EXPECT_EQ(met(), 200u);
}

TEST_P(SmallBlocksWait, two_in_no_order_are_refused) {
  Graph graph(device());
  const auto a = graph.kernel(meet, blocks(1), meeting()).named("a");
  const auto b = graph.kernel(meet, blocks(1), meeting()).named("b");
  expect_refused(graph, {Rule::waits_side_by_side, "b", ".after(a)"});
  b.after(a);
  run(graph);
  EXPECT_EQ(met(), 2u);
}

TEST_P(SmallBlocksWait, a_programmatic_edge_is_order_enough) {
  Graph graph(device());
  const auto a = graph.kernel(meet, blocks(most()), meeting());
  const auto b = graph.kernel(meet, blocks(most()), meeting()).after_programmatic(a);
  graph.kernel(meet, blocks(most()), meeting()).after_programmatic(b);
  run(graph);
  EXPECT_EQ(met(), 3 * most());
}

TEST_P(SmallBlocksWait, order_may_go_through_other_nodes) {
  Graph graph(device());
  const auto a = graph.kernel(meet, blocks(most()), meeting());
  const auto between = graph.fill(count(2), 0, 4).after(a);
  graph.kernel(meet, blocks(most()), meeting()).after(between);
  run(graph);
  EXPECT_EQ(met(), 2 * most());
}

TEST_P(SmallBlocksWait, one_of_many_that_follows_only_some_is_refused) {
  Graph graph(device());
  const auto a = graph.kernel(meet, blocks(1), meeting()).named("a");
  const auto b = graph.kernel(meet, blocks(1), meeting()).named("b").after(a);
  graph.kernel(meet, blocks(1), meeting()).named("c").after(b);
  graph.kernel(meet, blocks(1), meeting()).named("beside").after(a);
  const std::vector<GraphError> problems = graph.problems();
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems.front().rule(), Rule::waits_side_by_side);
  EXPECT_THAT(problems.front().what(), HasSubstr("'beside'"));
}

TEST_P(SmallBlocksWait, one_beside_persistent_workers_is_refused_whichever_comes_first) {
  for (const bool workers_first : {true, false}) {
    Graph graph(device());
    const auto add_workers = [&] {
      return graph.kernel(work_persistently, Grid{}, {count(2)}).named("workers");
    };
    if (workers_first) add_workers();
    graph.kernel(meet, blocks(1), meeting()).named("meeting");
    if (!workers_first) add_workers();
    expect_refused(graph, {Rule::waits_side_by_side, workers_first ? "meeting" : "workers",
                           "blocks of 'meeting' wait for each other"});
  }
  Graph graph(device());
  const auto workers = graph.kernel(work_persistently, Grid{}, {count(2)});
  const auto between = graph.kernel(meet, blocks(1), meeting()).after(workers);
  graph.kernel(work_persistently, Grid{}, {count(2)}).after(between);
  run(graph);
  EXPECT_EQ(met(), 1u);
}

TEST_P(SmallBlocksWait, persistent_workers_beside_each_other_are_not) {
  Graph graph(device());
  graph.kernel(work_persistently, Grid{}, {count(2)});
  graph.kernel(work_persistently, Grid{}, {count(2)});
  EXPECT_TRUE(graph.problems().empty());
}

TEST_P(SmallBlocksWait, one_in_a_child_beside_another_is_refused) {
  Graph graph(device());
  const auto outside = graph.kernel(meet, blocks(1), meeting()).named("outside");
  const auto child = graph.child(
      "child", [&](Graph& inside) { inside.kernel(meet, blocks(1), meeting()).named("inside"); });
  expect_refused(graph, {Rule::waits_side_by_side, "inside", ".after(outside)"});
  child.after(outside);
  run(graph);
  EXPECT_EQ(met(), 2u);
}

TEST_P(SmallBlocksWait, two_branches_of_one_choice_never_run_side_by_side) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const auto add = [&](Graph& body) { body.kernel(meet, blocks(most()), meeting()); };
  graph.if_("if", on, add, add);
  run(graph);
  EXPECT_EQ(met(), most());
}

TEST_P(SmallBlocksWait, blocks_that_wait_in_vain_end_and_say_so) {
  if (most() == 1) GTEST_SKIP() << "one block has nobody to wait for";
  // An odd number has arrived, so one has no partner, and the second of the next pair waits in
  // vain.
  const std::vector<std::uint32_t> come{1, 0, 0};
  const Buffer<std::uint32_t> counts(device(), come);
  Graph graph(device(), "party");
  graph
      .kernel(meet, blocks(2),
              {reinterpret_cast<MeetingCount*>(counts.data()), count(1), 1'000'000})
      .named("pair");
  Exec exec = graph.instantiate();
  exec.launch(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(AllOf(HasSubstr("'pair' of graph 'party'"),
                                               HasSubstr("for the other blocks"),
                                               HasSubstr("wanted 4 and saw 3"))));
  EXPECT_EQ(met(), 1u);
}

}  // namespace
}  // namespace attacca::test
