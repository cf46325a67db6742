// Tests of graphs refused for their shape: cycles, empty graphs and bodies, impossible edges, and
// nodes of two devices. Each is repaired afterwards and then runs.
#include <bit>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

class SmallRefusedOrder : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped()) x_.emplace(device(), std::vector<int>{1, 0});
  }
  void TearDown() override {
    x_.reset();
    OnEachDevice::TearDown();
  }
  int* x() { return x_->data(); }
  AffineArgs step(int factor, int summand) {
    return {.x = x(), .count = 1, .factor = factor, .summand = summand};
  }
  /// Runs a repaired graph from 1 and expects `value`.
  void expect_gives(const Graph& graph, int value) {
    x_->write(std::vector<int>{1, 0});
    EXPECT_TRUE(graph.problems().empty());
    run(graph);
    EXPECT_EQ(x_->read().front(), value);
  }

 private:
  std::optional<Buffer<int>> x_;
};
ATTACCA_ON_EACH_DEVICE(SmallRefusedOrder);

TEST_P(SmallRefusedOrder, a_cycle) {
  Graph graph(device());
  const auto a = graph.kernel(affine, Grid{}, step(2, 0)).named("a");
  const auto b = graph.kernel(affine, Grid{}, step(1, 1)).named("b").after(a);
  const Graph before = graph;
  const auto c = graph.kernel(affine, Grid{}, step(1, 1)).named("c").after(b);
  a.after(c);
  expect_refused(graph, {Rule::cycle, "a", "remove one of these edges"});
  expect_gives(before, 3);
}

TEST_P(SmallRefusedOrder, a_node_that_follows_itself) {
  Graph graph(device());
  const auto a = graph.kernel(affine, Grid{}, step(2, 0)).named("a");
  const Graph before = graph;
  a.after(a);
  expect_refused(graph, {Rule::cycle, "a", "write a loop with while_"});
  expect_gives(before, 2);
}

TEST_P(SmallRefusedOrder, a_cycle_inside_a_body) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  graph.if_("if", on, [&](Graph& body) {
    const auto a = body.kernel(affine, Grid{}, step(2, 0)).named("a");
    const auto b = body.kernel(affine, Grid{}, step(1, 1)).named("b").after(a);
    a.after(b);
  });
  expect_refused(graph, {Rule::cycle, "a", "remove one of these edges"});
}

TEST_P(SmallRefusedOrder, an_empty_graph) {
  Graph graph(device(), "nothing");
  expect_refused(graph, {Rule::empty_graph, "nothing", "add one before instantiating"});
  expect_refused_for_device(graph, {Rule::empty_graph, "nothing", "add one before instantiating"});
  graph.child("hollow", [](Graph&) {});
  expect_refused(graph, {Rule::empty_graph, "nothing", "add one before instantiating"});
  graph.kernel(affine, Grid{}, step(2, 0));
  expect_gives(graph, 2);
}

TEST_P(SmallRefusedOrder, an_empty_body) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const Graph before = graph;
  graph.if_(
      "choice", on, [&](Graph& body) { body.kernel(affine, Grid{}, step(2, 0)); },
      [](Graph& body) { body.child("hollow", [](Graph&) {}); });
  expect_refused(graph, {Rule::empty_body, "choice", "leave the branch out"});

  Graph repaired = before;
  repaired.if_("choice", on, [&](Graph& body) { body.kernel(affine, Grid{}, step(2, 0)); });
  expect_gives(repaired, 2);
}

TEST_P(SmallRefusedOrder, an_edge_between_scopes) {
  Graph graph(device());
  const auto outside = graph.kernel(affine, Grid{}, step(2, 0)).named("outside");
  const auto child = graph.child("child", [&](Graph& inside) {
    const auto node = inside.kernel(affine, Grid{}, step(1, 1)).named("inside");
    expect_throws([&] { node.after(outside); },
                  {Rule::edge_across_scopes, "inside", "make the enclosing nodes follow"});
  });
  child.after(outside);
  expect_gives(graph, 3);
}

TEST_P(SmallRefusedOrder, an_edge_between_two_bodies_of_one_conditional) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  std::optional<Node> in_then;
  graph.if_(
      "choice", on,
      [&](Graph& body) { in_then = body.kernel(affine, Grid{}, step(2, 0)).named("then node"); },
      [&](Graph& body) {
        const auto node = body.kernel(affine, Grid{}, step(5, 0)).named("else node");
        expect_throws([&] { node.after(*in_then); },
                      {Rule::edge_across_scopes, "else node", "enclosing nodes"});
      });
  expect_gives(graph, 2);
}

TEST_P(SmallRefusedOrder, an_edge_between_graphs) {
  Graph graph(device(), "one");
  Graph other(device(), "other");
  const auto a = graph.kernel(affine, Grid{}, step(2, 0));
  const auto b = other.kernel(affine, Grid{}, step(2, 0));
  EXPECT_THROW(a.after(b), BadArgument);
  Graph longer = graph;
  longer.kernel(affine, Grid{}, step(2, 0));
  const auto beyond = longer.kernel(affine, Grid{}, step(2, 0));
  EXPECT_THROW(a.after(beyond), BadArgument);
  expect_gives(graph, 2);
}

TEST_P(SmallRefusedOrder, a_programmatic_edge_from_something_that_is_no_kernel) {
  Graph graph(device());
  const auto fill = graph.fill(x(), 0, sizeof(int)).named("clear");
  const auto consumer = graph.kernel(consume, Grid{}, {.to = x(), .from = x()})
                            .named("consumer")
                            .after_programmatic(fill);
  expect_refused(graph, {Rule::programmatic_edge, "consumer", "use after("});
  // Adding the full edge makes the programmatic one harmless.
  consumer.after(fill);
  expect_gives(graph, 1);
}

TEST_P(SmallRefusedOrder, a_programmatic_edge_to_a_consumer_that_never_waits) {
  Graph graph(device());
  const auto producer = graph.kernel(produce, Grid{}, {.to = x(), .value = 4});
  const auto consumer =
      graph.kernel(affine, Grid{}, step(2, 0)).named("hasty").after_programmatic(producer);
  expect_refused(graph, {Rule::consumer_never_waits, "hasty", "declare waits = true"});
  consumer.after(producer);
  expect_gives(graph, 8);
}

TEST_P(SmallRefusedOrder, a_child_of_another_device) {
  const Device elsewhere = Device::host(1);
  const Buffer<int> y(elsewhere, 1);
  Graph other(elsewhere, "other");
  other.kernel(set_value, Grid{}, {.to = y.data(), .value = 1});
  Graph graph(device());
  graph.kernel(affine, Grid{}, step(2, 0));
  expect_throws([&] { graph.child("foreign", other); },
                {Rule::two_devices, "foreign", "build both for one device"});
  EXPECT_EQ(graph.node_count(), 1u);
  expect_gives(graph, 2);
}

TEST_P(SmallRefusedOrder, a_launch_on_a_stream_of_another_device) {
  const Device elsewhere = Device::host(1);
  Stream foreign(elsewhere);
  Graph graph(device());
  graph.kernel(affine, Grid{}, step(2, 0));
  Exec exec = graph.instantiate();
  EXPECT_THROW(exec.launch(foreign), BadArgument);
  EXPECT_EQ(exec.counters().launches, 0u);
  expect_gives(graph, 2);
}

TEST_P(SmallRefusedOrder, an_updatable_node_that_does_not_follow_its_updater) {
  Graph graph(device());
  const auto target = graph.kernel(set_value, Grid{}, {.to = x(), .value = 1}).named("target");
  const auto update =
      graph
          .kernel(update_args, Grid{},
                  {.node = target.device_updatable(), .args = {.to = x(), .value = 8}})
          .named("updater");
  expect_refused(graph, {Rule::updatable_node, "target", ".after(updater)"});
  target.after(update);
  expect_gives(graph, 8);
}

TEST_P(SmallRefusedOrder, an_updatable_node_that_follows_its_updater_programmatically_only) {
  // Behind a programmatic edge the node may have started before the update.
  Graph graph(device());
  const auto target = graph.kernel(consume, Grid{}, {.to = x(), .from = x() + 1}).named("target");
  // Any kernel that carries the handle counts as an updater.
  const auto handle = std::bit_cast<DeviceNode<SetArgs>>(target.device_updatable());
  const auto update =
      graph.kernel(update_enabled, Grid{}, {.node = handle, .is_enabled = 1}).named("updater");
  target.after_programmatic(update);
  expect_refused(graph, {Rule::updatable_node, "target", ".after(updater)"});
  target.after(update);
  expect_gives(graph, 1);
}

TEST_P(SmallRefusedOrder, all_problems_of_a_graph_are_listed_at_once) {
  Graph graph(device());
  graph.condition("unused");
  const auto producer = graph.kernel(produce, Grid{}, {.to = x(), .value = 4});
  graph.kernel(affine, Grid{}, step(2, 0)).after_programmatic(producer);
  graph.free(x());
  const std::vector<GraphError> problems = graph.problems();
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].rule(), Rule::consumer_never_waits);
  EXPECT_EQ(problems[1].rule(), Rule::condition_unused);
  EXPECT_EQ(problems[2].rule(), Rule::free_without_allocation);
}

TEST_P(SmallRefusedOrder, a_cycle_hides_only_what_needs_an_order) {
  Graph graph(device());
  graph.condition("unused");
  const auto a = graph.kernel(affine, Grid{}, step(2, 0)).named("a");
  const auto b = graph.kernel(affine, Grid{}, step(1, 1)).named("b").after(a);
  const auto c = graph.kernel(affine, Grid{}, step(1, 1)).named("c").after(b);
  const auto d = graph.kernel(affine, Grid{}, step(1, 1)).named("d").after(c);
  const auto self = graph.kernel(affine, Grid{}, step(1, 1)).named("self");
  graph.kernel(affine, Grid{}, step(1, 1)).named("last").after(d, self);
  a.after(b);
  c.after(d);
  self.after(self);
  graph.free(nullptr);
  const std::vector<GraphError> problems = graph.problems();
  ASSERT_EQ(problems.size(), 5u);
  expect_error(problems[0], {Rule::cycle, "a", ": 'a' → 'b' → 'a';"});
  expect_error(problems[1], {Rule::cycle, "c", ": 'c' → 'd' → 'c';"});
  expect_error(problems[2], {Rule::cycle, "self", ": 'self' → 'self';"});
  EXPECT_EQ(problems[3].rule(), Rule::condition_unused);
  EXPECT_EQ(problems[4].rule(), Rule::free_without_allocation);
}

TEST_P(SmallRefusedOrder, a_child_a_body_or_a_branch_without_a_function) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const Graph::Fill add = [&](Graph& body) { body.kernel(affine, Grid{}, step(1, 1)); };
  expect_bad([&] { graph.child("child", nullptr); }, "child 'child' has no function");
  expect_bad([&] { graph.if_("if", on, nullptr); }, "the then of if 'if' has no function");
  expect_bad([&] { graph.if_("if", on, add, nullptr); }, "the else of if 'if' has no function");
  expect_bad(
      [&] {
        graph.switch_("switch", on, {add, nullptr});
      },
      "the case 1 of switch 'switch' has no function");
  expect_bad([&] { graph.while_("while", on, nullptr); },
             "the body of while 'while' has no function");
  expect_bad([&] { graph.while_("while", nullptr); }, "the body of while 'while' has no function");
  EXPECT_EQ(graph.node_count(), 0u);
  graph.if_("if", on, add);
  expect_gives(graph, 2);
}

TEST_P(SmallRefusedOrder, two_devices_of_one_name_are_told_apart) {
  const Device one = Device::host(1);
  const Device other = Device::host(1);
  Graph graph(one, "graph");
  graph.host("call", [] {});
  Exec exec = graph.instantiate();
  Stream stream(other);
  expect_bad([&] { exec.launch(stream); },
             "graph 'graph' is for host and the stream is on another host device");
  Graph second(other, "second");
  second.host("call", [] {});
  expect_throws([&] { exec.update(second); },
                {Rule::two_devices, "second", "is for another host device"});
  expect_throws([&] { graph.child("second", second); },
                {Rule::two_devices, "second", "was built for another host device"});
}

}  // namespace
}  // namespace attacca::test
