// Tests of if, if/else, while and switch, one level deep, and of their conditions' initial values.
#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallConditional : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped()) log_.emplace(device());
  }
  void TearDown() override {
    log_.reset();
    OnEachDevice::TearDown();
  }
  DeviceLog& log() { return *log_; }
  Graph::Fill noting(int tag) {
    return
        [this, tag](Graph& body) { body.kernel(note, Grid{}, {.log = log().view(), .tag = tag}); };
  }
  std::vector<int> run_and_read(const Graph& graph) {
    log().clear();
    run(graph);
    return log().read();
  }
  /// Runs a graph that sets a condition, chooses by it and notes 9.
  std::vector<int> choose_by(unsigned value,
                             const std::function<PlainNode(Graph&, Condition)>& conditional) {
    Graph graph(device());
    const Condition condition = graph.condition("choice");
    const auto set = graph.kernel(set_condition, Grid{}, {.condition = condition, .value = value});
    const auto choice = conditional(graph, condition).after(set);
    graph.kernel(note, Grid{}, {.log = log().view(), .tag = 9}).after(choice);
    return run_and_read(graph);
  }

 private:
  std::optional<DeviceLog> log_;
};
ATTACCA_ON_EACH_DEVICE(SmallConditional);

using Tags = std::vector<int>;

TEST_P(SmallConditional, an_if_runs_its_body_when_the_condition_is_not_zero) {
  const auto an_if = [&](Graph& g, Condition c) { return g.if_("if", c, noting(1)); };
  EXPECT_EQ(choose_by(0, an_if), (Tags{9}));
  EXPECT_EQ(choose_by(1, an_if), (Tags{1, 9}));
  EXPECT_EQ(choose_by(7, an_if), (Tags{1, 9}));
}

TEST_P(SmallConditional, an_if_else_runs_one_of_its_bodies) {
  const auto if_else = [&](Graph& g, Condition c) {
    return g.if_("if/else", c, noting(1), noting(2));
  };
  EXPECT_EQ(choose_by(0, if_else), (Tags{2, 9}));
  EXPECT_EQ(choose_by(1, if_else), (Tags{1, 9}));
}

TEST_P(SmallConditional, a_switch_runs_the_body_of_that_number) {
  const auto a_switch = [&](Graph& g, Condition c) {
    return g.switch_("switch", c, {noting(0), noting(1), noting(2)});
  };
  EXPECT_EQ(choose_by(0, a_switch), (Tags{0, 9}));
  EXPECT_EQ(choose_by(1, a_switch), (Tags{1, 9}));
  EXPECT_EQ(choose_by(2, a_switch), (Tags{2, 9}));
}

TEST_P(SmallConditional, a_switch_out_of_range_runs_nothing) {
  const auto a_switch = [&](Graph& g, Condition c) {
    return g.switch_("switch", c, {noting(0), noting(1)});
  };
  EXPECT_EQ(choose_by(2, a_switch), (Tags{9}));
  EXPECT_EQ(choose_by(~0u, a_switch), (Tags{9}));
}

TEST_P(SmallConditional, a_while_runs_until_its_condition_is_zero) {
  const Buffer<unsigned> left = buffer<unsigned>({4});
  Graph graph(device());
  const auto loop = graph.while_("loop", [&](Graph& body, Condition again) {
    const auto step = body.kernel(note, Grid{}, {.log = log().view(), .tag = 1});
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
  });
  graph.kernel(note, Grid{}, {.log = log().view(), .tag = 9}).after(loop);
  EXPECT_EQ(run_and_read(graph), (Tags{1, 1, 1, 1, 9}));
}

TEST_P(SmallConditional, a_while_tests_its_condition_before_the_first_pass) {
  const Buffer<unsigned> left = buffer<unsigned>({1});
  Graph graph(device());
  const Condition again = graph.condition("again", 1);
  const auto set = graph.kernel(set_condition, Grid{}, {.condition = again, .value = 0});
  const auto loop =
      graph
          .while_(
              "loop", again,
              [&](Graph& body) {
                const auto step = body.kernel(note, Grid{}, {.log = log().view(), .tag = 1});
                body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
              })
          .after(set);
  graph.kernel(note, Grid{}, {.log = log().view(), .tag = 9}).after(loop);
  EXPECT_EQ(run_and_read(graph), (Tags{9}));
}

TEST_P(SmallConditional, a_body_runs_its_nodes_in_the_order_of_its_edges) {
  const Buffer<unsigned> left = buffer<unsigned>({2});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    // The nodes are added in reverse, so that only the edges give the order.
    const auto last = body.kernel(count_down, Grid{}, {.again = again, .left = left.data()});
    const auto third = body.kernel(note, Grid{}, {.log = log().view(), .tag = 3});
    const auto second = body.kernel(note, Grid{}, {.log = log().view(), .tag = 2});
    const auto first = body.kernel(note, Grid{}, {.log = log().view(), .tag = 1});
    second.after(first);
    third.after(second);
    last.after(third);
  });
  EXPECT_EQ(run_and_read(graph), (Tags{1, 2, 3, 1, 2, 3}));
}

TEST_P(SmallConditional, a_condition_nobody_sets_keeps_its_initial_value) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const Condition off = graph.condition("off", 0);
  const Condition two = graph.condition("two", 2);
  const auto a = graph.if_("on", on, noting(1), noting(2));
  const auto b = graph.if_("off", off, noting(3), noting(4)).after(a);
  graph.switch_("two", two, {noting(5), noting(6), noting(7)}).after(b);
  EXPECT_EQ(run_and_read(graph), (Tags{1, 4, 7}));
}

TEST_P(SmallConditional, the_initial_value_comes_back_at_each_launch) {
  const Buffer<unsigned> script = buffer<unsigned>({0, 1, 0, 1});
  const Buffer<unsigned> at = buffer<unsigned>({0});
  const Buffer<unsigned> left = buffer<unsigned>({1});
  Graph graph(device());
  // The body clears the condition of its own while.
  graph.while_("once per launch", [&](Graph& body, Condition again) {
    const auto step = body.kernel(note, Grid{}, {.log = log().view(), .tag = 1});
    body.kernel(set_condition, Grid{}, {.condition = again, .value = 0}).after(step);
  });
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 3; ++launch_number) exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(log().read(), (Tags{1, 1, 1}));
}

TEST_P(SmallConditional, one_kernel_may_set_a_condition_another_value_each_launch) {
  const Buffer<unsigned> script = buffer<unsigned>({2, 0, 5, 1});
  const Buffer<unsigned> at = buffer<unsigned>({0});
  Graph graph(device());
  const Condition choice = graph.condition("choice");
  const auto set = graph.kernel(next_condition, Grid{},
                                {.condition = choice, .values = script.data(), .at = at.data()});
  graph.switch_("switch", choice, {noting(0), noting(1), noting(2)}).after(set);
  Exec exec = graph.instantiate();
  for (int launch_number = 0; launch_number < 4; ++launch_number) exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(log().read(), (Tags{2, 0, 1}));
}

TEST_P(SmallConditional, bodies_hold_copies_and_fills) {
  const Buffer<int> from = buffer<int>({6});
  const Buffer<int> to = buffer<int>({0, 1});
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  graph.if_("if", on, [&](Graph& body) {
    const auto copy = body.copy(to.data(), from.data(), sizeof(int));
    body.fill(to.data() + 1, 0, sizeof(int)).after(copy);
  });
  run(graph);
  EXPECT_EQ(to.read(), (std::vector<int>{6, 0}));
}

TEST_P(SmallConditional, bodies_hold_library_calls) {
  const Buffer<int> x = buffer<int>({1});
  const Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const auto step = body.library("double", [p = x.data()](StreamRef on) {
      on.kernel(affine, Grid{}, {.x = p, .count = 1, .factor = 2, .summand = 0});
    });
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
  });
  run(graph);
  EXPECT_EQ(x.read().front(), 8);
}

TEST_P(SmallConditional, a_switch_without_bodies_is_refused) {
  Graph graph(device());
  const Condition choice = graph.condition("choice");
  EXPECT_THROW(graph.switch_("empty", choice, {}), BadArgument);
}

TEST_P(SmallConditional, a_condition_of_another_graph_is_refused) {
  Graph graph(device());
  Graph other(device());
  const Condition foreign = other.condition("foreign");
  EXPECT_THROW(graph.if_("if", foreign, noting(1)), BadArgument);
  EXPECT_THROW(graph.if_("if", Condition{}, noting(1)), BadArgument);
}

}  // namespace
}  // namespace attacca::test
