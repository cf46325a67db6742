// Tests of updates and device code: nodes that kernels change, and device execs that the host
// changes between device launches.
#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallUpdatableNode : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallUpdatableNode);

TEST_P(SmallUpdatableNode, a_kernel_changes_the_arguments_of_a_later_one) {
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto target = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const auto update =
      graph.kernel(update_args, Grid{},
                   {.node = target.device_updatable(), .args = {.to = x.data() + 1, .value = 8}});
  target.after(update);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{0, 8}));
}

TEST_P(SmallUpdatableNode, a_kernel_changes_the_grid_of_a_later_one) {
  const Buffer<unsigned> cell = buffer<unsigned>({0});
  Graph graph(device());
  const auto target = graph.kernel(count_threads, Grid{{2}, {32}}, {.cell = cell.data()});
  const auto update =
      graph.kernel(update_blocks, Grid{}, {.node = target.device_updatable(), .blocks = 5});
  target.after(update);
  run(graph);
  EXPECT_EQ(cell.read().front(), 160u);
}

TEST_P(SmallUpdatableNode, a_kernel_switches_a_later_one_off_and_on) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  const auto target = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 4});
  const auto update =
      graph.kernel(update_enabled, Grid{}, {.node = target.device_updatable(), .is_enabled = 0});
  target.after(update);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read().front(), 0);
  exec.set(update, {.node = target.device_updatable(), .is_enabled = 1});
  run(exec);
  EXPECT_EQ(x.read().front(), 4);
}

TEST_P(SmallUpdatableNode, what_a_kernel_set_holds_for_the_next_launch) {
  Buffer<int> x = buffer<int>({0, 0});
  Buffer<unsigned> wanted = buffer<unsigned>({1});
  Graph graph(device());
  const auto target = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const auto update = graph.kernel(update_args, Grid{},
                                   {.node = target.device_updatable(),
                                    .args = {.to = x.data() + 1, .value = 8},
                                    .only_if = wanted.data()});
  target.after(update);
  Exec exec = graph.instantiate();
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{0, 8}));
  wanted.write(std::vector<unsigned>{0});
  x.write(std::vector<int>{0, 0});
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{0, 8}));
}

TEST_P(SmallUpdatableNode, one_kernel_may_update_several_and_several_one) {
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto a = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const auto b = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 2});
  const auto first = graph.kernel(
      update_args, Grid{}, {.node = a.device_updatable(), .args = {.to = x.data(), .value = 5}});
  const auto second =
      graph
          .kernel(update_args, Grid{},
                  {.node = b.device_updatable(), .args = {.to = x.data() + 1, .value = 6}})
          .after(first);
  const auto third =
      graph
          .kernel(update_args, Grid{},
                  {.node = a.device_updatable(), .args = {.to = x.data(), .value = 7}})
          .after(second);
  a.after(third);
  b.after(third);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{7, 6}));
}

TEST_P(SmallUpdatableNode, the_host_may_set_an_updatable_node_too) {
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto target = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const auto update =
      graph.kernel(update_args, Grid{},
                   {.node = target.device_updatable(), .args = {.to = x.data() + 1, .value = 8}});
  target.after(update);
  Exec exec = graph.instantiate();
  exec.enable(update, false);
  exec.set(target, {.to = x.data(), .value = 3});
  run(exec);
  EXPECT_EQ(x.read(), (std::vector<int>{3, 0}));
}

TEST_P(SmallUpdatableNode, updating_the_whole_graph_around_one_means_instantiating_anew) {
  const Buffer<int> x = buffer<int>({0, 0});
  const auto make = [&](int value) {
    Graph graph(device());
    const auto target = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
    const auto update =
        graph.kernel(update_args, Grid{},
                     {.node = target.device_updatable(), .args = {.to = x.data(), .value = value}});
    target.after(update);
    return graph;
  };
  Exec exec = make(8).instantiate();
  const UpdateReport report = exec.update(make(9));
  EXPECT_TRUE(report.was_reinstantiated);
  EXPECT_NE(report.reason.find("device-updatable"), std::string::npos) << report.reason;
  run(exec);
  EXPECT_EQ(x.read().front(), 9);
}

// --- device execs -------------------------------------------------------------------------------

class SmallDeviceExecUpdate : public OnEachDevice {
 protected:
  /// A graph of one kernel that launches `target` as a tail.
  Exec launcher_of(const DeviceExec& target) {
    Graph graph(device(), "launcher");
    graph.kernel(launch, Grid{}, {.graph = target.handle(), .mode = LaunchMode::tail, .tally = {}});
    return graph.instantiate();
  }
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceExecUpdate);

TEST_P(SmallDeviceExecUpdate, a_device_launch_sees_what_the_host_set) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device(), "target");
  const auto node = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  DeviceExec target = graph.instantiate_for_device();
  EXPECT_EQ(target.counters().uploads, 1u);
  Exec launcher = launcher_of(target);
  run(launcher);
  EXPECT_EQ(x.read().front(), 1);

  for (int value = 2; value < 5; ++value) {
    const UpdateReport report = target.set(node, {.to = x.data(), .value = value});
    EXPECT_TRUE(report) << report.reason;
    EXPECT_FALSE(report.handle_changed);
    run(launcher);
    EXPECT_EQ(x.read().front(), value);
  }
  EXPECT_EQ(target.counters().uploads, 4u);
  EXPECT_EQ(target.counters().nodes_updated, 3u);
  EXPECT_EQ(launcher.counters().launches, 4u);
}

TEST_P(SmallDeviceExecUpdate, a_device_launch_sees_copies_and_fills_and_switches) {
  const Buffer<int> x = buffer<int>({0, 0, 0});
  const Buffer<int> y = buffer<int>({5, 6});
  Graph graph(device(), "target");
  const auto copy = graph.copy(x.data(), y.data(), sizeof(int));
  const auto fill = graph.fill(x.data() + 1, 1, sizeof(int)).after(copy);
  const auto off = graph.kernel(set_value, Grid{}, {.to = x.data() + 2, .value = 9}).after(fill);
  DeviceExec target = graph.instantiate_for_device();
  Exec launcher = launcher_of(target);
  target.enable(off, false);
  run(launcher);
  EXPECT_EQ(x.read(), (std::vector<int>{5, 0x01010101, 0}));
  target.set(copy, x.data(), y.data() + 1, sizeof(int));
  target.set(fill, x.data() + 1, 0xff, sizeof(int));
  target.enable(off, true);
  run(launcher);
  EXPECT_EQ(x.read(), (std::vector<int>{6, -1, 9}));
}

TEST_P(SmallDeviceExecUpdate, an_update_in_place_keeps_the_handle) {
  const Buffer<int> x = buffer<int>({0});
  const auto make = [&](int value) {
    Graph graph(device(), "target");
    graph.kernel(set_value, Grid{}, {.to = x.data(), .value = value});
    return graph;
  };
  DeviceExec target = make(1).instantiate_for_device();
  Exec launcher = launcher_of(target);
  const UpdateReport report = target.update(make(2));
  EXPECT_TRUE(report) << report.reason;
  run(launcher);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallDeviceExecUpdate, a_new_handle_is_announced_and_can_be_given_to_the_launching_kernel) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device(), "target");
  const auto node = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  DeviceExec target = graph.instantiate_for_device();
  Graph outer(device(), "launcher");
  const auto launching = outer.kernel(
      launch, Grid{}, {.graph = target.handle(), .mode = LaunchMode::tail, .tally = {}});
  Exec launcher = outer.instantiate();
  const void* before = target.handle().exec;

  graph.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 1, .summand = 10}).after(node);
  const UpdateReport report = target.update(graph);
  EXPECT_TRUE(report.was_reinstantiated);
  EXPECT_EQ(report.handle_changed, target.handle().exec != before);
  launcher.set(launching, {.graph = target.handle(), .mode = LaunchMode::tail, .tally = {}});
  run(launcher);
  EXPECT_EQ(x.read().front(), 11);
}

TEST_P(SmallDeviceExecUpdate, a_graph_that_relaunches_itself_can_be_set_while_it_is_in_flight) {
  // On the host, a change to a graph with updatable nodes waits for its launches, which must go on.
  if (is_cuda()) GTEST_SKIP() << "host and device may not use one exec at a time";
  const Buffer<int> x = buffer<int>({0});
  const Buffer<unsigned> left = buffer<unsigned>({50});
  Graph graph(device(), "again");
  const auto target = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const auto update =
      graph.kernel(update_args, Grid{},
                   {.node = target.device_updatable(), .args = {.to = x.data(), .value = 2}});
  target.after(update);
  graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = {}}).after(target);
  DeviceExec exec = graph.instantiate_for_device();
  exec.start(stream());
  exec.enable(update, false);
  exec.set(target, {.to = x.data(), .value = 3});
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 2);
  EXPECT_EQ(left.read().front(), 0u);
  exec.start(stream());
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 3);
}

}  // namespace
}  // namespace attacca::test
