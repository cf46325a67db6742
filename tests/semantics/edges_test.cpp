// Tests of the order of nodes: full and programmatic edges, priorities, and nodes switched off.
#include <algorithm>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using Tags = std::vector<int>;

class SmallEdges : public OnEachDevice {
 protected:
  AffineArgs step(const Buffer<int>& x, int factor, int summand) const {
    return {.x = x.data(), .count = x.size(), .factor = factor, .summand = summand};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallEdges);

TEST_P(SmallEdges, a_full_edge_orders_two_kernels) {
  const Buffer<int> x = buffer(std::vector<int>(5000, 1));
  const Grid grid = Grid::covering(5000);
  Graph graph(device());
  const auto second = graph.kernel(affine, grid, step(x, 2, 0));
  const auto first = graph.kernel(affine, grid, step(x, 1, 3));
  second.after(first);
  run(graph);
  EXPECT_EQ(x.read(), std::vector<int>(5000, 8));
}

TEST_P(SmallEdges, edges_order_nodes_of_different_kinds) {
  const Buffer<int> x = buffer<int>({9, 9});
  Graph graph(device());
  const auto clear = graph.fill(x.data(), 0, x.bytes());
  const auto add = graph.kernel(affine, Grid{}, step(x, 1, 4)).after(clear);
  const auto spread = graph.copy(x.data() + 1, x.data(), sizeof(int)).after(add);
  const auto call = graph.host("between", [] {}).after(spread);
  graph.kernel(affine, Grid{}, step(x, 5, 0)).after(call);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{20, 20}));
}

TEST_P(SmallEdges, a_diamond_joins_both_sides) {
  const Buffer<int> x = buffer<int>({0, 0, 0, 0});
  int* p = x.data();
  Graph graph(device());
  const auto top = graph.kernel(set_value, Grid{}, {.to = p, .value = 5});
  const auto left =
      graph.kernel(sum, Grid{}, {.sum = p + 1, .in = {p}, .count = 1, .more = 1}).after(top);
  const auto right =
      graph.kernel(sum, Grid{}, {.sum = p + 2, .in = {p}, .count = 1, .more = 10}).after(top);
  graph.kernel(sum, Grid{}, {.sum = p + 3, .in = {p + 1, p + 2}, .count = 2, .more = 0})
      .after(left, right);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{5, 6, 15, 21}));
}

TEST_P(SmallEdges, a_wide_fan_runs_every_branch_and_joins_them_all) {
  constexpr unsigned kWidth = 200;
  const Buffer<int> x = buffer(std::vector<int>(kWidth, -1));
  const Buffer<int> total = buffer<int>({0});
  Graph graph(device());
  const auto start = graph.fill(x.data(), 0, x.bytes());
  std::vector<Node> partial;
  for (unsigned at = 0; at < kWidth; ++at)
    partial.push_back(
        graph
            .kernel(affine, Grid{},
                    {.x = x.data() + at, .count = 1, .factor = 1, .summand = static_cast<int>(at)})
            .after(start));
  // The join adds up chunks. Each chunk is behind every branch.
  Node last = graph.fill(total.data(), 0, total.bytes()).after(partial);
  for (unsigned at = 0; at < kWidth; at += 10) {
    SumArgs args{.sum = total.data(), .in = {total.data()}, .count = 11, .more = 0};
    for (unsigned k = 0; k < 10; ++k) args.in[k + 1] = x.data() + at + k;
    last = graph.kernel(sum, Grid{}, args).after(last);
  }
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 3; ++launch_number) {
    run(exec);
    EXPECT_EQ(total.read().front(), static_cast<int>(kWidth * (kWidth - 1) / 2));
  }
}

TEST_P(SmallEdges, the_same_edge_twice_is_one_edge) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto first = graph.kernel(affine, Grid{}, step(x, 2, 0));
  graph.kernel(affine, Grid{}, step(x, 1, 1)).after(first).after(first);
  run(graph);
  EXPECT_EQ(x.read().front(), 3);
}

TEST_P(SmallEdges, a_programmatic_consumer_sees_what_its_producer_wrote) {
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto producer = graph.kernel(produce, Grid{{4}, {64}}, {.to = x.data(), .value = 30});
  const auto consumer =
      graph.kernel(consume, Grid{{4}, {64}}, {.to = x.data() + 1, .from = x.data()})
          .after_programmatic(producer);
  graph.kernel(affine, Grid{}, step(x, 2, 0)).after(consumer);
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 10; ++launch_number) run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{60, 62}));
}

TEST_P(SmallEdges, a_kernel_may_have_a_full_and_a_programmatic_edge) {
  Buffer<int> x = buffer<int>({0, 0, 0, 0});
  Graph graph(device());
  const auto a = graph.kernel(produce, Grid{}, {.to = x.data(), .value = 1});
  const auto b = graph.kernel(produce, Grid{}, {.to = x.data() + 1, .value = 5});
  const auto c = graph.kernel(consume, Grid{}, {.to = x.data() + 2, .from = x.data() + 1})
                     .after(a)
                     .after_programmatic(b);
  graph.kernel(consume, Grid{}, {.to = x.data() + 3, .from = x.data()}).after(c);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{1, 5, 6, 2}));
  DeviceExec exec = graph.instantiate_for_device();
  x.write(std::vector<int>(4));
  exec.start(stream());
  stream().synchronize();
  EXPECT_EQ(x.read(), (std::vector<int>{1, 5, 6, 2}));
}

TEST_P(SmallEdges, programmatic_edges_chain) {
  const Buffer<int> x = buffer<int>({0, 0, 0});
  Graph graph(device());
  const auto a = graph.kernel(produce, Grid{}, {.to = x.data(), .value = 1});
  const auto b =
      graph.kernel(consume, Grid{}, {.to = x.data() + 1, .from = x.data()}).after_programmatic(a);
  graph.kernel(consume, Grid{}, {.to = x.data() + 2, .from = x.data() + 1}).after_programmatic(b);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{1, 2, 3}));
}

TEST_P(SmallEdges, programmatic_consumers_read_nothing_that_earlier_kernels_left_in_a_cache) {
  // Every kernel lets the next one start at once. So readers of an old value still fill the caches
  // while others wait for the new one.
  constexpr unsigned kCount = 512, kBlocks = 264, kThreads = 64;
  const Buffer<int> x = buffer(std::vector<int>(kCount, 0));
  const Buffer<int> wrong = buffer(std::vector<int>(std::size_t{kBlocks} * kThreads, 0));
  Graph graph(device());
  Node last = graph.fill(x.data(), 0, x.bytes());
  for (int value = 1; value <= 20; ++value) {
    const RewriteArgs write{x.data(), kCount, value};
    const ReadAgainArgs read{x.data(), kCount, value, 50, wrong.data()};
    const auto writer = graph.kernel(rewrite, Grid{{2}, {kThreads}}, write);
    last = value == 1 ? writer.after(last) : writer.after_programmatic(last);
    last = graph.kernel(read_again, Grid{{kBlocks}, {kThreads}}, read).after_programmatic(last);
  }
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 3; ++launch_number) run(exec);
  EXPECT_EQ(wrong.read(), std::vector<int>(wrong.size(), 0));
}

TEST_P(SmallEdges, a_consumer_may_have_full_and_programmatic_producers) {
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto early = graph.kernel(produce, Grid{}, {.to = x.data(), .value = 5});
  const auto full = graph.fill(x.data() + 1, 1, sizeof(int));
  graph.kernel(consume, Grid{}, {.to = x.data() + 1, .from = x.data()})
      .after_programmatic(early)
      .after(full);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{5, 6}));
}

TEST_P(SmallEdges, a_consumer_that_promised_to_wait_and_does_not_is_found_out_on_the_host) {
  if (is_cuda()) GTEST_SKIP() << "only the host executor can tell";
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto producer = graph.kernel(produce, Grid{}, {.to = x.data(), .value = 1});
  graph.kernel(forget_to_wait, Grid{}, {.to = x.data() + 1, .from = x.data()})
      .named("forgetful")
      .after_programmatic(producer);
  try {
    run(graph);
    FAIL() << "nothing was thrown";
  } catch (const NodeFailed& error) {
    EXPECT_EQ(error.node(), "forgetful");
  }
}

TEST_P(SmallEdges, higher_priority_runs_first_where_there_is_a_choice) {
  const DeviceLog log(device());
  Graph graph(device());
  graph.kernel(note, Grid{}, {.log = log.view(), .tag = 1}).priority(-1);
  graph.kernel(note, Grid{}, {.log = log.view(), .tag = 2});
  const auto high = graph.kernel(note, Grid{}, {.log = log.view(), .tag = 3}).priority(5);
  graph.kernel(note, Grid{}, {.log = log.view(), .tag = 4}).priority(3).after(high);
  run(graph);
  Tags tags = log.read();
  if (GetParam() == DeviceKind::host_serial) {
    EXPECT_EQ(tags, (Tags{3, 4, 2, 1}));
  }
  // On other devices a priority is only a hint; an edge is not.
  EXPECT_LT(std::find(tags.begin(), tags.end(), 3), std::find(tags.begin(), tags.end(), 4));
  std::sort(tags.begin(), tags.end());
  EXPECT_EQ(tags, (Tags{1, 2, 3, 4}));
}

TEST_P(SmallEdges, a_node_switched_off_does_nothing_and_keeps_its_place_in_the_order) {
  const Buffer<int> x = buffer<int>({1});
  const Buffer<int> y = buffer<int>({70});
  Graph graph(device());
  const auto first = graph.kernel(affine, Grid{}, step(x, 3, 0));
  const auto off = graph.kernel(affine, Grid{}, step(x, 1, 100)).after(first).enabled(false);
  const auto fill_off = graph.fill(x.data(), 0, x.bytes()).after(off).enabled(false);
  const auto copy_off = graph.copy(x.data(), y.data(), sizeof(int)).after(fill_off).enabled(false);
  graph.kernel(affine, Grid{}, step(x, 1, 1)).after(copy_off);
  run(graph);
  EXPECT_EQ(x.read().front(), 4);
}

TEST_P(SmallEdges, a_node_switched_off_still_holds_its_followers_back) {
  // The first kernel takes long enough to show a follower that does not wait.
  const std::vector<int> ones(std::size_t{1} << 18, 1);
  const Grid grid = Grid::covering(ones.size());
  for (const int kind : {0, 1, 2}) {
    const Buffer<int> x = buffer(ones);
    const Buffer<int> other = buffer(ones);
    Graph graph(device());
    const auto first = graph.kernel(affine, grid, step(x, 3, 0));
    const Node off = kind == 0   ? Node(graph.kernel(affine, grid, step(x, 1, 100)).after(first))
                     : kind == 1 ? Node(graph.fill(x.data(), 0, x.bytes()).after(first))
                                 : Node(graph.copy(x.data(), other.data(), x.bytes()).after(first));
    graph.kernel(affine, grid, step(x, 1, 1)).after(off);
    Exec exec = graph.instantiate();
    ASSERT_TRUE(exec.enable(off, false)) << kind;
    for (int round = 0, expected = 1; round < 5; ++round) {
      expected = expected * 3 + 1;
      run(exec);
      EXPECT_EQ(x.read(), std::vector<int>(ones.size(), expected)) << kind;
    }
  }
}

TEST_P(SmallEdges, an_exec_switches_nodes_off_and_on) {
  const Buffer<int> x = buffer<int>({0});
  const Buffer<int> y = buffer<int>({50});
  Graph graph(device());
  const auto add = graph.kernel(affine, Grid{}, step(x, 1, 1));
  const auto copy = graph.copy(x.data(), y.data(), sizeof(int)).after(add).enabled(false);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read().front(), 1);
  EXPECT_TRUE(exec.enable(copy, true));
  run(exec);
  EXPECT_EQ(x.read().front(), 50);
  EXPECT_TRUE(exec.enable(copy, false));
  EXPECT_TRUE(exec.enable(add, false));
  run(exec);
  EXPECT_EQ(x.read().front(), 50);
  EXPECT_TRUE(exec.enable(add, true));
  run(exec);
  EXPECT_EQ(x.read().front(), 51);
}

TEST_P(SmallEdges, a_host_call_cannot_be_switched_off) {
  Graph graph(device());
  const auto call = graph.host("call", [] {});
  Exec exec = graph.instantiate();
  EXPECT_THROW(exec.enable(call, false), BadArgument);
}

}  // namespace
}  // namespace attacca::test
