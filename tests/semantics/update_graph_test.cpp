// Tests of updating an exec from a whole new graph: in place if only parameters differ, else by a
// new instantiation with a reason; and of device execs, which are uploaded again each time.
#include <gmock/gmock.h>

#include "graph/access.hpp"
#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

class SmallGraphUpdate : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped()) x_.emplace(device(), std::vector<int>{1, 0});
  }
  void TearDown() override {
    x_.reset();
    OnEachDevice::TearDown();
  }
  Buffer<int>& x() { return *x_; }
  AffineArgs step(int factor, int summand) {
    return {.x = x().data(), .count = 1, .factor = factor, .summand = summand};
  }
  int run_from(Exec& exec, int value) {
    x().write(std::vector<int>{value, 0});
    run(exec);
    return x().read().front();
  }
  /// x = x * 2 + 1
  Graph two_steps() {
    Graph graph(device(), "two steps");
    const auto first = graph.kernel(affine, Grid{}, step(2, 0)).named("first");
    graph.kernel(affine, Grid{}, step(1, 1)).named("second").after(first);
    return graph;
  }
  /// Checks that `from` cannot be updated in place with `to`, for `reason` at `node`, and that the
  /// exec runs `to` afterwards.
  void expect_reinstantiated(const Graph& from, const Graph& to, const std::string& reason,
                             const std::string& node, int from_one) {
    Exec exec = from.instantiate();
    run(exec);
    const UpdateReport report = exec.update(to);
    EXPECT_TRUE(report.was_reinstantiated);
    EXPECT_FALSE(report);
    EXPECT_THAT(report.reason, HasSubstr(reason));
    EXPECT_EQ(report.node, node);
    EXPECT_EQ(exec.counters().reinstantiations, 1u);
    EXPECT_EQ(run_from(exec, 1), from_one);
  }

 private:
  std::optional<Buffer<int>> x_;
};
ATTACCA_ON_EACH_DEVICE(SmallGraphUpdate);

TEST_P(SmallGraphUpdate, parameters_are_taken_over_in_place) {
  Exec exec = two_steps().instantiate();
  Graph next(device(), "next");
  const auto first = next.kernel(affine, Grid{{2}, {32}}, step(10, 0)).named("first");
  next.kernel(affine, Grid{}, step(1, 5)).named("second").after(first);
  const UpdateReport report = exec.update(next);
  EXPECT_TRUE(report) << report.reason;
  EXPECT_EQ(exec.counters().nodes_updated, 2u);
  EXPECT_EQ(exec.counters().reinstantiations, 0u);
  EXPECT_EQ(run_from(exec, 1), 15);
}

TEST_P(SmallGraphUpdate, only_nodes_that_differ_are_updated) {
  Exec exec = two_steps().instantiate();
  EXPECT_TRUE(exec.update(two_steps()));
  EXPECT_EQ(exec.counters().nodes_updated, 0u);
  EXPECT_EQ(run_from(exec, 1), 3);
}

TEST_P(SmallGraphUpdate, copies_fills_and_switches_are_taken_over) {
  const Buffer<int> y = buffer<int>({40, 50});
  const auto make = [&](int from, int value, bool is_enabled) {
    Graph graph(device());
    const auto fill = graph.fill(x().data() + 1, static_cast<std::uint8_t>(value), sizeof(int));
    const auto copy = graph.copy(x().data(), y.data() + from, sizeof(int)).after(fill);
    graph.kernel(affine, Grid{}, step(1, 1)).after(copy).enabled(is_enabled);
    return graph;
  };
  Exec exec = make(0, 0, true).instantiate();
  EXPECT_EQ(run_from(exec, 1), 41);
  EXPECT_TRUE(exec.update(make(1, 0xff, false)));
  EXPECT_EQ(run_from(exec, 1), 50);
  EXPECT_EQ(x().read(), (std::vector<int>{50, -1}));
}

TEST_P(SmallGraphUpdate, a_graph_with_conditions_and_allocations_updates) {
  Buffer<unsigned> left = buffer<unsigned>({2});
  const auto make = [&](int summand) {
    Graph graph(device());
    const auto scratch = graph.allocate<int>("scratch", 8);
    const auto in = graph.copy(scratch.data() + 1, x().data(), sizeof(int)).after(scratch);
    const auto loop =
        graph
            .while_(
                "loop",
                [&](Graph& body, Condition again) {
                  const auto add = body.kernel(
                      affine, Grid{},
                      {.x = scratch.data() + 1, .count = 1, .factor = 1, .summand = summand});
                  body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(add);
                })
            .after(in);
    const auto out = graph.copy(x().data(), scratch.data() + 1, sizeof(int)).after(loop);
    graph.free(scratch).after(out);
    return graph;
  };
  Exec exec = make(1).instantiate();
  EXPECT_EQ(run_from(exec, 10), 12);
  exec.update(make(100));
  left.write(std::vector<unsigned>{3});
  EXPECT_EQ(run_from(exec, 10), 310);
}

TEST_P(SmallGraphUpdate, many_nodes_at_once_keep_what_was_set_and_switched_before) {
  constexpr int kEach = 24;
  const Buffer<int> y = buffer<int>({1, 2});
  struct Made {
    Graph graph;
    std::vector<KernelNode<AffineArgs>> kernels;
    std::optional<CopyNode> copy;
    std::optional<FillNode> fill;
  };
  const auto make = [&](int summand, int from) {
    Made made{Graph(device()), {}, {}, {}};
    made.fill = made.graph.fill(x().data(), 0, sizeof(int));
    made.copy = made.graph.copy(x().data() + 1, y.data() + from, sizeof(int)).after(*made.fill);
    for (int at = 0; at < kEach; ++at) {
      const auto node = made.graph.kernel(affine, Grid{}, step(1, summand)).priority(at % 2);
      if (at)
        node.after(made.kernels.back());
      else
        node.after(*made.copy);
      made.kernels.push_back(node);
    }
    return made;
  };
  const Made first = make(1, 0);
  Exec exec = first.graph.instantiate();
  EXPECT_EQ(run_from(exec, 5), kEach);
  // Some are set one by one, so that only the executable graph knows; then all others at once.
  EXPECT_TRUE(exec.set(first.kernels[3], step(1, 1000)));
  EXPECT_TRUE(exec.enable(*first.fill, false));
  EXPECT_TRUE(exec.enable(first.kernels[5], false));
  EXPECT_EQ(run_from(exec, 5), 5 + kEach - 2 + 1000);
  Made next = make(10, 1);
  next.fill->enabled(false);
  next.kernels[5].enabled(false);
  EXPECT_TRUE(exec.update(next.graph));
  EXPECT_EQ(exec.counters().reinstantiations, 0u);
  EXPECT_EQ(run_from(exec, 5), 5 + (kEach - 1) * 10);
  EXPECT_EQ(x().read().back(), 2);
  EXPECT_TRUE(exec.set(first.kernels[0], step(1, 500)));
  EXPECT_TRUE(exec.update(make(100, 0).graph));  // all on again
  EXPECT_EQ(run_from(exec, 5), kEach * 100);
  EXPECT_EQ(x().read().back(), 1);
}

TEST_P(SmallGraphUpdate, handles_of_both_graphs_work_after_an_update_in_place) {
  Graph graph(device(), "old");
  const auto old_node = graph.kernel(affine, Grid{}, step(2, 0));
  Graph next(device(), "new");
  const auto new_node = next.kernel(affine, Grid{}, step(3, 0));
  Exec exec = graph.instantiate();
  EXPECT_TRUE(exec.update(next));
  EXPECT_TRUE(exec.set(old_node, step(5, 0)));
  EXPECT_EQ(run_from(exec, 1), 5);
  EXPECT_TRUE(exec.set(new_node, step(7, 0)));
  EXPECT_EQ(run_from(exec, 1), 7);
}

TEST_P(SmallGraphUpdate, after_reinstantiation_handles_of_the_new_graph_work) {
  Graph graph(device(), "old");
  const auto old_node = graph.kernel(affine, Grid{}, step(2, 0));
  Graph next(device(), "new");
  const auto new_node = next.kernel(affine, Grid{}, step(3, 0));
  next.kernel(affine, Grid{}, step(1, 1)).after(new_node);
  Exec exec = graph.instantiate();
  EXPECT_FALSE(exec.update(next));
  EXPECT_THROW(exec.set(old_node, step(5, 0)), BadArgument);
  EXPECT_TRUE(exec.set(new_node, step(7, 0)));
  EXPECT_EQ(run_from(exec, 1), 8);
}

// --- refused in place ---------------------------------------------------------------------------

TEST_P(SmallGraphUpdate, a_changed_edge_is_refused_in_place) {
  Graph next(device(), "next");
  const auto first = next.kernel(affine, Grid{}, step(2, 0)).named("first");
  const auto second = next.kernel(affine, Grid{}, step(1, 1)).named("second");
  first.after(second);
  expect_reinstantiated(two_steps(), next, "topology changed", "first", 4);
}

TEST_P(SmallGraphUpdate, an_added_node_is_refused_in_place) {
  Graph next = two_steps();
  const auto third = next.kernel(affine, Grid{}, step(10, 0)).named("third");
  third.after(Node(graph::data_of(next), 1));
  expect_reinstantiated(two_steps(), next, "3 nodes instead of 2", "third", 30);
}

TEST_P(SmallGraphUpdate, a_removed_node_is_refused_in_place) {
  Graph next(device(), "next");
  next.kernel(affine, Grid{}, step(2, 0)).named("first");
  expect_reinstantiated(two_steps(), next, "1 node instead of 2", "second", 2);
}

TEST_P(SmallGraphUpdate, a_node_of_another_kind_is_refused_in_place) {
  Graph next(device(), "next");
  const auto first = next.kernel(affine, Grid{}, step(2, 0)).named("first");
  next.fill(x().data(), 0, sizeof(int)).named("second").after(first);
  expect_reinstantiated(two_steps(), next, "kind changed: kernel 'second' became fill 'second'",
                        "second", 0);
}

TEST_P(SmallGraphUpdate, another_kernel_function_is_refused_in_place) {
  Graph next(device(), "next");
  const auto first = next.kernel(affine, Grid{}, step(2, 0)).named("first");
  next.kernel(other_affine, Grid{}, step(1, 3)).named("second").after(first);
  expect_reinstantiated(two_steps(), next, "kernel 'affine' became 'other_affine'", "second", 5);
}

TEST_P(SmallGraphUpdate, another_priority_is_refused_in_place) {
  Graph next(device(), "next");
  const auto first = next.kernel(affine, Grid{}, step(2, 0)).named("first").priority(3);
  next.kernel(affine, Grid{}, step(1, 1)).named("second").after(first);
  expect_reinstantiated(two_steps(), next, "priority 3 instead of 0", "first", 3);
}

TEST_P(SmallGraphUpdate, an_allocation_of_another_size_is_refused_in_place) {
  const auto make = [&](std::size_t count) {
    Graph graph(device());
    const auto scratch = graph.allocate<int>("scratch", count);
    const auto use = graph.copy(scratch.data(), x().data(), sizeof(int)).after(scratch);
    const auto back = graph.copy(x().data(), scratch.data(), sizeof(int)).after(use);
    graph.free(scratch).after(back);
    return graph;
  };
  expect_reinstantiated(make(10), make(20), "40 bytes became 80", "scratch", 1);
}

TEST_P(SmallGraphUpdate, another_kind_of_conditional_is_refused_in_place) {
  const auto make = [&](bool is_switch) {
    Graph graph(device());
    const Condition one = graph.condition("one", 1);
    const auto add = [&](int summand) {
      return [this, summand](Graph& body) { body.kernel(affine, Grid{}, step(1, summand)); };
    };
    if (is_switch)
      graph.switch_("choice", one, {add(10), add(20)});
    else
      graph.if_("choice", one, add(10), add(20));
    return graph;
  };
  expect_reinstantiated(make(false), make(true), "switch 'choice' changed", "choice", 21);
}

TEST_P(SmallGraphUpdate, conditionals_that_swap_their_conditions_are_refused_in_place) {
  const auto make = [&](bool is_swapped) {
    Graph graph(device());
    const Condition on = graph.condition("on", 1);
    const Condition off = graph.condition("off", 0);
    const auto first = graph.if_("first", is_swapped ? off : on,
                                 [&](Graph& body) { body.kernel(affine, Grid{}, step(1, 10)); });
    graph
        .if_("second", is_swapped ? on : off,
             [&](Graph& body) { body.kernel(affine, Grid{}, step(1, 20)); })
        .after(first);
    return graph;
  };
  expect_reinstantiated(make(false), make(true), "another condition", "first", 21);
}

TEST_P(SmallGraphUpdate, another_initial_value_is_refused_in_place) {
  const auto make = [&](unsigned initial) {
    Graph graph(device());
    const Condition on = graph.condition("on", initial);
    graph.if_("if", on, [&](Graph& body) { body.kernel(affine, Grid{}, step(1, 10)); });
    return graph;
  };
  expect_reinstantiated(make(0), make(1), "'on' changed", "on", 11);
}

TEST_P(SmallGraphUpdate, host_calls_are_refused_in_place_since_functions_cannot_be_compared) {
  const auto make = [&](int) {
    Graph graph(device());
    const auto call = graph.host("call", [] {});
    graph.kernel(affine, Grid{}, step(1, 1)).after(call);
    return graph;
  };
  expect_reinstantiated(make(0), make(1), "host call 'call'", "call", 2);
}

TEST_P(SmallGraphUpdate, a_graph_that_breaks_a_rule_changes_nothing) {
  Exec exec = two_steps().instantiate();
  EXPECT_THROW(exec.update(Graph(device(), "empty")), GraphError);
  EXPECT_EQ(exec.counters().reinstantiations, 0u);
  EXPECT_EQ(run_from(exec, 1), 3);
}

TEST_P(SmallGraphUpdate, a_graph_of_another_device_is_refused) {
  Exec exec = two_steps().instantiate();
  const Device elsewhere = Device::host(1);
  const Buffer<int> y(elsewhere, 1);
  Graph other(elsewhere, "elsewhere");
  other.kernel(set_value, Grid{}, {.to = y.data(), .value = 1});
  try {
    exec.update(other);
    FAIL() << "nothing was thrown";
  } catch (const GraphError& error) {
    EXPECT_EQ(error.rule(), Rule::two_devices);
  }
  EXPECT_EQ(run_from(exec, 1), 3);
}

}  // namespace
}  // namespace attacca::test
