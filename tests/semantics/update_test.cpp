// Tests of single updates: a kernel, copy or fill node of an exec gets new parameters.
#include <future>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallUpdate : public OnEachDevice {
 protected:
  AffineArgs step(const Buffer<int>& x, int factor, int summand) const {
    return {.x = x.data(), .count = x.size(), .factor = factor, .summand = summand};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallUpdate);

TEST_P(SmallUpdate, a_kernel_gets_new_arguments) {
  const Buffer<int> x = buffer<int>({1});
  const Buffer<int> y = buffer<int>({1});
  Graph graph(device());
  const auto first = graph.kernel(affine, Grid{}, step(x, 2, 0));
  const auto second = graph.kernel(affine, Grid{}, step(x, 1, 1)).after(first);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read().front(), 3);

  const UpdateReport report = exec.set(first, step(y, 5, 0));
  EXPECT_TRUE(report) << report.reason;
  EXPECT_TRUE(report.reason.empty());
  run(exec);
  EXPECT_EQ(x.read().front(), 4);
  EXPECT_EQ(y.read().front(), 5);
  EXPECT_TRUE(exec.set(second, step(y, 1, 1)));
  run(exec);
  EXPECT_EQ(y.read().front(), 26);
}

TEST_P(SmallUpdate, a_kernel_gets_a_new_grid) {
  const Buffer<unsigned> cell = buffer<unsigned>({0});
  Graph graph(device());
  const auto node = graph.kernel(count_threads, Grid{{2}, {8}}, {.cell = cell.data()});
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(cell.read().front(), 16u);
  EXPECT_TRUE(exec.set(node, Grid{{3, 2}, {32}}, {.cell = cell.data()}));
  run(exec);
  EXPECT_EQ(cell.read().front(), 16u + 192u);
  EXPECT_THROW(exec.set(node, Grid{{0}, {32}}, {.cell = cell.data()}), BadArgument);
  run(exec);
  EXPECT_EQ(cell.read().front(), 16u + 2 * 192u);
}

TEST_P(SmallUpdate, a_copy_gets_new_addresses_and_size) {
  const Buffer<int> from = buffer<int>({1, 2, 3, 4});
  const Buffer<int> to = buffer<int>({0, 0, 0, 0});
  Graph graph(device());
  const auto copy = graph.copy(to.data(), from.data(), sizeof(int));
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(to.read(), (std::vector<int>{1, 0, 0, 0}));
  EXPECT_TRUE(exec.set(copy, to.data() + 1, from.data() + 2, 2 * sizeof(int)));
  run(exec);
  EXPECT_EQ(to.read(), (std::vector<int>{1, 3, 4, 0}));
  EXPECT_THROW(exec.set(copy, nullptr, from.data(), 4), BadArgument);
  EXPECT_THROW(exec.set(copy, to.data(), from.data(), 0), BadArgument);
}

TEST_P(SmallUpdate, a_fill_gets_a_new_address_value_and_size) {
  const Buffer<std::uint8_t> bytes = buffer(std::vector<std::uint8_t>(4, 9));
  Graph graph(device());
  const auto fill = graph.fill(bytes.data(), 1, 1);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_TRUE(exec.set(fill, bytes.data() + 2, 7, 2));
  run(exec);
  EXPECT_EQ(bytes.read(), (std::vector<std::uint8_t>{1, 9, 7, 7}));
  EXPECT_THROW(exec.set(fill, nullptr, 1, 1), BadArgument);
}

TEST_P(SmallUpdate, nodes_in_the_body_of_a_while_can_be_set) {
  const Buffer<int> x = buffer<int>({0, 0});
  const Buffer<int> y = buffer<int>({9});
  Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device());
  std::optional<KernelNode<AffineArgs>> kernel;
  std::optional<CopyNode> copy;
  std::optional<FillNode> fill;
  graph.while_("loop", [&](Graph& body, Condition again) {
    kernel = body.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 1, .summand = 1});
    copy = body.copy(x.data() + 1, x.data(), sizeof(int)).after(*kernel);
    fill = body.fill(y.data(), 0, sizeof(int)).after(*copy);
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(*fill);
  });
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{3, 3}));
  EXPECT_EQ(y.read().front(), 0);

  // In place or not, the next launch must use the new parameters.
  exec.set(*kernel, {.x = x.data(), .count = 1, .factor = 1, .summand = 10});
  left.write(std::vector<unsigned>{2});
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{23, 23}));
  exec.set(*copy, y.data(), x.data(), sizeof(int));
  exec.set(*fill, x.data() + 1, 0xff, sizeof(int));
  left.write(std::vector<unsigned>{1});
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{33, -1}));
  EXPECT_EQ(y.read().front(), 33);
}

TEST_P(SmallUpdate, nodes_in_bodies_and_children_can_be_switched_off) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  std::optional<KernelNode<AffineArgs>> in_body;
  std::optional<KernelNode<AffineArgs>> in_child;
  const auto choice = graph.if_(
      "if", on, [&](Graph& then) { in_body = then.kernel(affine, Grid{}, step(x, 1, 1)); });
  graph
      .child("child",
             [&](Graph& inside) { in_child = inside.kernel(affine, Grid{}, step(x, 1, 10)); })
      .after(choice);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read().front(), 11);
  exec.enable(*in_body, false);
  run(exec);
  EXPECT_EQ(x.read().front(), 21);
  exec.enable(*in_body, true);
  exec.enable(*in_child, false);
  run(exec);
  EXPECT_EQ(x.read().front(), 22);
}

TEST_P(SmallUpdate, a_kernel_that_sets_a_condition_can_be_set) {
  const DeviceLog log(device());
  Graph graph(device());
  const Condition choice = graph.condition("choice");
  const auto set = graph.kernel(set_condition, Grid{}, {.condition = choice, .value = 0});
  const auto noting = [&](int tag) {
    return [&log, tag](Graph& body) { body.kernel(note, Grid{}, {.log = log.view(), .tag = tag}); };
  };
  graph.switch_("switch", choice, {noting(0), noting(1)}).after(set);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_TRUE(exec.set(set, {.condition = choice, .value = 1}));
  run(exec);
  EXPECT_EQ(log.read(), (std::vector<int>{0, 1}));
}

TEST_P(SmallUpdate, an_update_that_would_break_a_rule_is_refused_and_changes_nothing) {
  const Buffer<unsigned> left = buffer<unsigned>({2, 9});
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  std::optional<KernelNode<CountDownArgs>> counter;
  std::optional<Condition> own;
  graph.while_("loop", [&](Graph& body, Condition again) {
    const auto step_node = body.kernel(affine, Grid{}, step(x, 1, 1));
    counter =
        body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step_node);
    own = again;
  });
  Exec exec = graph.instantiate();
  try {
    exec.set(*counter, {.again = Condition{}, .left = left.data() + 1});
    FAIL() << "nothing was thrown";
  } catch (const GraphError& error) {
    EXPECT_EQ(error.rule(), Rule::condition_never_set);
    EXPECT_EQ(error.node(), "loop");
  }
  run(exec);
  EXPECT_EQ(x.read().front(), 2);
  EXPECT_EQ(left.read(), (std::vector<unsigned>{0, 9}));
}

TEST_P(SmallUpdate, launches_already_made_keep_the_parameters_they_were_made_with) {
  const DeviceLog log(device());
  const Buffer<int> from = buffer<int>({1, 2});
  const Buffer<int> to = buffer<int>({0, 0});
  Graph graph(device());
  const auto kernel = graph.kernel(note, Grid{}, {.log = log.view(), .tag = 1});
  const auto copy = graph.copy(to.data(), from.data(), sizeof(int)).after(kernel);
  const auto off = graph.kernel(note, Grid{}, {.log = log.view(), .tag = 100}).after(copy);
  Exec exec = graph.instantiate();

  std::promise<void> gate;
  stream().host("gate", [opened = gate.get_future().share()] { opened.wait(); });
  exec.launch(stream());
  EXPECT_TRUE(exec.set(kernel, {.log = log.view(), .tag = 2}));
  EXPECT_TRUE(exec.enable(off, false));
  exec.launch(stream());
  EXPECT_TRUE(exec.set(kernel, {.log = log.view(), .tag = 3}));
  EXPECT_TRUE(exec.set(copy, to.data() + 1, from.data() + 1, sizeof(int)));
  exec.launch(stream());
  gate.set_value();
  stream().synchronize();
  EXPECT_EQ(log.read(), (std::vector<int>{1, 100, 2, 3}));
  EXPECT_EQ(to.read(), (std::vector<int>{1, 2}));
}

TEST_P(SmallUpdate, an_exec_outlives_its_graph) {
  const Buffer<int> x = buffer<int>({1});
  std::optional<Graph> graph(std::in_place, device());
  const auto node = graph->kernel(affine, Grid{}, step(x, 2, 0));
  Exec exec = graph->instantiate();
  graph.reset();
  run(exec);
  EXPECT_TRUE(exec.set(node, step(x, 3, 0)));
  run(exec);
  EXPECT_EQ(x.read().front(), 6);
  EXPECT_EQ(exec.graph().node_count(), 1u);
}

TEST_P(SmallUpdate, changing_the_graph_afterwards_does_not_change_the_exec) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto node = graph.kernel(affine, Grid{}, step(x, 2, 0));
  Exec exec = graph.instantiate();
  graph.kernel(affine, Grid{}, step(x, 100, 0)).after(node);
  run(exec);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallUpdate, a_moved_exec_runs_and_the_one_it_came_from_refuses) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto node = graph.kernel(affine, Grid{}, step(x, 2, 0));
  Exec exec = graph.instantiate();
  Exec moved = std::move(exec);
  EXPECT_TRUE(moved.set(node, step(x, 3, 0)));
  run(moved);
  EXPECT_EQ(x.read().front(), 3);
  EXPECT_THROW(exec.launch(stream()), BadArgument);
  EXPECT_THROW(exec.set(node, step(x, 3, 0)), BadArgument);
  EXPECT_THROW(exec.counters(), BadArgument);
}

// --- handles ------------------------------------------------------------------------------------

TEST_P(SmallUpdate, a_handle_of_another_graph_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device(), "mine");
  graph.kernel(affine, Grid{}, step(x, 2, 0));
  Graph other(device(), "other");
  const auto foreign = other.kernel(affine, Grid{}, step(x, 3, 0));
  Exec exec = graph.instantiate();
  EXPECT_THROW(exec.set(foreign, step(x, 5, 0)), BadArgument);
  EXPECT_THROW(exec.enable(foreign, false), BadArgument);
  run(exec);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallUpdate, a_handle_names_the_node_in_copies_of_its_graph_too) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto node = graph.kernel(affine, Grid{}, step(x, 2, 0));
  const Graph copy = graph;
  Exec exec = copy.instantiate();
  EXPECT_TRUE(exec.set(node, step(x, 7, 0)));
  run(exec);
  EXPECT_EQ(x.read().front(), 7);
}

TEST_P(SmallUpdate, a_handle_of_a_node_added_to_another_copy_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  graph.kernel(affine, Grid{}, step(x, 2, 0));
  Graph longer = graph;
  const auto added = longer.kernel(affine, Grid{}, step(x, 3, 0));
  const auto small = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 5});
  Exec exec = graph.instantiate();
  // The same number names a kernel of another type here, a copy there, and nothing in the third.
  EXPECT_THROW(exec.set(added, step(x, 9, 0)), BadArgument);
  const auto beyond = longer.fill(x.data(), 1, 1);
  EXPECT_THROW(exec.set(beyond, x.data(), 0, 1), BadArgument);
  EXPECT_THROW(exec.enable(beyond, false), BadArgument);
  const auto also_third = graph.copy(x.data(), x.data(), 4);
  Exec longer_exec = longer.instantiate();
  EXPECT_THROW(longer_exec.set(also_third, x.data(), x.data(), 4), BadArgument);
  EXPECT_TRUE(exec.set(small, {.to = x.data(), .value = 6}));
}

TEST_P(SmallUpdate, a_handle_of_a_diverged_copy_is_refused_though_it_looks_the_same) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto shared = graph.kernel(affine, Grid{}, step(x, 1, 1));
  Graph copy = graph;
  const auto mine = graph.kernel(affine, Grid{}, step(x, 2, 0)).after(shared);
  const auto theirs = copy.kernel(affine, Grid{}, step(x, 3, 0)).after(shared);
  EXPECT_EQ(mine.id(), theirs.id());
  Exec exec = graph.instantiate();
  EXPECT_THROW(exec.set(theirs, step(x, 100, 0)), BadArgument);
  EXPECT_THROW(exec.enable(theirs, false), BadArgument);
  run(exec);
  EXPECT_EQ(x.read().front(), 4);
  EXPECT_TRUE(exec.set(mine, step(x, 5, 0)));
  EXPECT_TRUE(exec.set(shared, step(x, 1, 0)));
  run(exec);
  EXPECT_EQ(x.read().front(), 20);
  // Once the exec has taken over the copy, the copy's handle is right.
  EXPECT_TRUE(exec.update(copy));
  EXPECT_TRUE(exec.set(theirs, step(x, 0, 7)));
  EXPECT_TRUE(exec.set(mine, step(x, 0, 8)));
  run(exec);
  EXPECT_EQ(x.read().front(), 8);
}

TEST_P(SmallUpdate, an_edge_to_a_node_of_a_diverged_copy_is_refused) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto shared = graph.kernel(affine, Grid{}, step(x, 1, 1));
  Graph copy = graph;
  graph.kernel(affine, Grid{}, step(x, 2, 0)).after(shared);
  const auto theirs = copy.kernel(affine, Grid{}, step(x, 3, 0)).after(shared);
  const auto last = graph.kernel(affine, Grid{}, step(x, 1, 0));
  EXPECT_THROW(last.after(theirs), BadArgument);
  EXPECT_NO_THROW(copy.kernel(affine, Grid{}, step(x, 1, 0)).after(shared, theirs));
}

TEST_P(SmallUpdate, many_changes_between_two_launches_reach_the_second_and_not_the_first) {
  constexpr int kNodes = 20;
  const Buffer<int> x = buffer<int>({0});
  const auto make = [&](int summand) {
    Graph graph(device());
    std::vector<KernelNode<AffineArgs>> nodes;
    for (int at = 0; at < kNodes; ++at) {
      nodes.push_back(graph.kernel(affine, Grid{}, step(x, 1, summand)));
      if (at) nodes[at].after(nodes[at - 1]);
    }
    return std::pair(std::move(graph), nodes);
  };
  const auto [graph, nodes] = make(1);
  Exec exec = graph.instantiate();
  std::promise<void> gate;
  stream().host("gate", [opened = gate.get_future().share()] { opened.wait(); });
  exec.launch(stream());
  for (const auto& node : nodes) EXPECT_TRUE(exec.set(node, step(x, 1, 100)));
  EXPECT_TRUE(exec.enable(nodes.back(), false));
  exec.launch(stream());
  EXPECT_TRUE(exec.update(make(10000).first));
  EXPECT_TRUE(exec.set(nodes.front(), step(x, 1, 0)));
  exec.launch(stream());
  gate.set_value();
  stream().synchronize();
  EXPECT_EQ(x.read().front(), kNodes + (kNodes - 1) * 100 + (kNodes - 1) * 10000);
}

TEST_P(SmallUpdate, counters_say_what_an_exec_did) {
  const Buffer<int> x = buffer<int>({1});
  Graph graph(device());
  const auto node = graph.kernel(affine, Grid{}, step(x, 2, 0));
  Exec exec = graph.instantiate();
  EXPECT_EQ(exec.counters().launches, 0u);
  run(exec);
  run(exec);
  exec.set(node, step(x, 3, 0));
  exec.enable(node, false);
  Graph bigger = graph;
  bigger.kernel(affine, Grid{}, step(x, 1, 1));
  exec.update(bigger);
  const ExecCounters counters = exec.counters();
  EXPECT_EQ(counters.launches, 2u);
  EXPECT_EQ(counters.nodes_updated, 2u);
  EXPECT_EQ(counters.reinstantiations, 1u);
  EXPECT_EQ(counters.uploads, 0u);
}

}  // namespace
}  // namespace attacca::test
