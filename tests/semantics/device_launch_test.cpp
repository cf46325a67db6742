// Tests of graphs launched from kernels: the three modes and their order.
#include <algorithm>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using Tags = std::vector<int>;

class SmallDeviceLaunch : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    log_.emplace(device());
    tally_.emplace(device());
  }
  void TearDown() override {
    log_.reset();
    tally_.reset();
    OnEachDevice::TearDown();
  }
  const DeviceLog& log() const { return *log_; }
  const DeviceTally& statuses() const { return *tally_; }

  NoteArgs tag(int value) const { return {.log = log().view(), .tag = value}; }
  LaunchArgs launching(const DeviceExec& exec, LaunchMode mode) const {
    return {.graph = exec.handle(), .mode = mode, .tally = statuses().view()};
  }
  /// A device graph that notes one tag.
  DeviceExec noting(int value) const {
    Graph graph(device(), "noting");
    graph.kernel(note, Grid{}, tag(value));
    return graph.instantiate_for_device();
  }

 private:
  std::optional<DeviceLog> log_;
  std::optional<DeviceTally> tally_;
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceLaunch);

TEST_P(SmallDeviceLaunch, a_tail_runs_after_all_nodes_of_the_launching_graph) {
  const DeviceExec target = noting(9);
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(target, LaunchMode::tail));
  const auto second = graph.kernel(note, Grid{}, tag(1)).after(first);
  const auto third = graph.kernel(note, Grid{}, tag(2)).after(second);
  graph.kernel(note, Grid{}, tag(3)).after(third);
  run(graph);
  EXPECT_EQ(log().read(), (Tags{1, 2, 3, 9}));
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 1u);
}

TEST_P(SmallDeviceLaunch, a_tail_waits_for_branches_that_do_not_follow_the_launching_kernel) {
  const DeviceExec target = noting(9);
  Graph graph(device());
  graph.kernel(launch, Grid{}, launching(target, LaunchMode::tail));
  Node last = graph.kernel(note, Grid{}, tag(1));
  for (int at = 0; at < 20; ++at) last = graph.kernel(note, Grid{}, tag(1)).after(last);
  run(graph);
  const Tags tags = log().read();
  ASSERT_EQ(tags.size(), 22u);
  EXPECT_EQ(tags.back(), 9);
}

TEST_P(SmallDeviceLaunch, a_fired_graph_runs) {
  const DeviceExec target = noting(5);
  Graph graph(device());
  graph.kernel(launch, Grid{}, launching(target, LaunchMode::fire_and_forget));
  Exec exec = graph.instantiate();
  run(exec);
  run(exec);
  EXPECT_EQ(log().read(), (Tags{5, 5}));
}

TEST_P(SmallDeviceLaunch, a_tail_runs_after_the_graphs_that_were_fired) {
  const DeviceExec tail = noting(9);
  Graph fired_graph(device(), "fired");
  Node last = fired_graph.kernel(note, Grid{}, tag(5));
  for (int at = 0; at < 10; ++at) last = fired_graph.kernel(note, Grid{}, tag(5)).after(last);
  const DeviceExec fired = fired_graph.instantiate_for_device();
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(tail, LaunchMode::tail));
  graph.kernel(launch, Grid{}, launching(fired, LaunchMode::fire_and_forget)).after(first);
  run(graph);
  Tags expected(11, 5);
  expected.push_back(9);
  EXPECT_EQ(log().read(), expected);
}

TEST_P(SmallDeviceLaunch, a_tail_waits_for_what_fired_graphs_fired) {
  const DeviceExec tail = noting(9);
  const DeviceExec grandchild = noting(6);
  Graph fired_graph(device(), "fired");
  const auto inner =
      fired_graph.kernel(launch, Grid{}, launching(grandchild, LaunchMode::fire_and_forget));
  fired_graph.kernel(note, Grid{}, tag(5)).after(inner);
  const DeviceExec fired = fired_graph.instantiate_for_device();
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(tail, LaunchMode::tail));
  graph.kernel(launch, Grid{}, launching(fired, LaunchMode::fire_and_forget)).after(first);
  run(graph);
  Tags tags = log().read();
  ASSERT_EQ(tags.size(), 3u);
  EXPECT_EQ(tags.back(), 9);
  std::sort(tags.begin(), tags.end());
  EXPECT_EQ(tags, (Tags{5, 6, 9}));
}

TEST_P(SmallDeviceLaunch, tails_run_in_the_order_they_were_launched) {
  std::vector<DeviceExec> tails;
  std::vector<DeviceGraph> handles;
  for (int at = 0; at < 8; ++at) handles.push_back(tails.emplace_back(noting(at)).handle());
  const Buffer<DeviceGraph> graphs = buffer(handles);
  Graph graph(device());
  graph.kernel(
      launch_many, Grid{},
      {.graphs = graphs.data(), .count = 8, .mode = LaunchMode::tail, .tally = statuses().view()});
  run(graph);
  EXPECT_EQ(log().read(), (Tags{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_P(SmallDeviceLaunch, tails_of_two_kernels_run_in_the_order_of_the_kernels) {
  const DeviceExec a = noting(1);
  const DeviceExec b = noting(2);
  const DeviceExec c = noting(3);
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(a, LaunchMode::tail));
  const auto second = graph.kernel(launch, Grid{}, launching(b, LaunchMode::tail)).after(first);
  graph.kernel(launch, Grid{}, launching(c, LaunchMode::tail)).after(second);
  run(graph);
  EXPECT_EQ(log().read(), (Tags{1, 2, 3}));
}

TEST_P(SmallDeviceLaunch, the_tails_of_a_tail_run_before_the_next_tail) {
  const DeviceExec inner = noting(2);
  Graph outer_graph(device(), "outer tail");
  const auto noted = outer_graph.kernel(note, Grid{}, tag(1));
  outer_graph.kernel(launch, Grid{}, launching(inner, LaunchMode::tail)).after(noted);
  const DeviceExec outer = outer_graph.instantiate_for_device();
  const DeviceExec next = noting(3);
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(outer, LaunchMode::tail));
  graph.kernel(launch, Grid{}, launching(next, LaunchMode::tail)).after(first);
  run(graph);
  EXPECT_EQ(log().read(), (Tags{1, 2, 3}));
}

TEST_P(SmallDeviceLaunch, a_sibling_has_run_when_synchronize_returns) {
  const DeviceExec sibling = noting(4);
  const DeviceExec tail = noting(9);
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(sibling, LaunchMode::sibling));
  graph.kernel(launch, Grid{}, launching(tail, LaunchMode::tail)).after(first);
  run(graph);
  // Tails do not wait for siblings, so the order is open.
  Tags tags = log().read();
  std::sort(tags.begin(), tags.end());
  EXPECT_EQ(tags, (Tags{4, 9}));
}

TEST_P(SmallDeviceLaunch, a_sibling_does_not_hold_tails_back) {
  // The sibling ends when it sees the tail's write. If the tail waited for it, it would never end.
  const Buffer<unsigned> flags = buffer<unsigned>({0, 0});
  Graph waiting(device(), "waiting");
  waiting.kernel(await_flag, Grid{}, {.flag = flags.data(), .was_raised = flags.data() + 1});
  const DeviceExec sibling = waiting.instantiate_for_device();
  Graph raising(device(), "raising");
  raising.kernel(raise_flag, Grid{}, {.flag = flags.data()});
  const DeviceExec tail = raising.instantiate_for_device();
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(sibling, LaunchMode::sibling));
  graph.kernel(launch, Grid{}, launching(tail, LaunchMode::tail)).after(first);
  run(graph);
  EXPECT_EQ(flags.read(), (std::vector<unsigned>{1, 1}));
}

TEST_P(SmallDeviceLaunch, a_sibling_of_a_fired_graph_has_run_when_synchronize_returns) {
  const DeviceExec sibling = noting(4);
  Graph fired_graph(device(), "fired");
  const auto noted = fired_graph.kernel(note, Grid{}, tag(1));
  fired_graph.kernel(launch, Grid{}, launching(sibling, LaunchMode::sibling)).after(noted);
  const DeviceExec fired = fired_graph.instantiate_for_device();
  Graph graph(device());
  graph.kernel(launch, Grid{}, launching(fired, LaunchMode::fire_and_forget));
  run(graph);
  EXPECT_EQ(log().read(), (Tags{1, 4}));
}

TEST_P(SmallDeviceLaunch, work_behind_the_launch_on_the_stream_waits_for_everything_launched) {
  const Buffer<int> x = buffer<int>({1, 0});
  Graph inner(device(), "inner");
  Node last = inner.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 2, .summand = 0});
  for (int at = 0; at < 9; ++at)
    last = inner.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 2, .summand = 0})
               .after(last);
  const DeviceExec target = inner.instantiate_for_device();
  Graph graph(device());
  graph.kernel(launch, Grid{}, launching(target, LaunchMode::tail));
  Exec exec = graph.instantiate();
  exec.launch(stream());
  stream().copy(x.data() + 1, x.data(), sizeof(int));
  stream().synchronize();
  EXPECT_EQ(x.read(), (std::vector<int>{1024, 1024}));
}

TEST_P(SmallDeviceLaunch, of_all_threads_of_a_grid_one_launches) {
  const DeviceExec target = noting(5);
  Graph graph(device());
  graph.kernel(launch, Grid{{4}, {32}}, launching(target, LaunchMode::tail));
  run(graph);
  EXPECT_EQ(log().read(), (Tags{5}));
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 1u);
  EXPECT_EQ(statuses().of(LaunchStatus::not_elected), 127u);
}

TEST_P(SmallDeviceLaunch, a_graph_launched_and_ended_can_be_launched_again_from_a_tail) {
  const DeviceExec target = noting(5);
  Graph again_graph(device(), "again");
  again_graph.kernel(launch, Grid{}, launching(target, LaunchMode::fire_and_forget));
  const DeviceExec again = again_graph.instantiate_for_device();
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(target, LaunchMode::fire_and_forget));
  graph.kernel(launch, Grid{}, launching(again, LaunchMode::tail)).after(first);
  run(graph);
  EXPECT_EQ(log().read(), (Tags{5, 5}));
}

// --- device execs started by the host, and relaunching ------------------------------------------

TEST_P(SmallDeviceLaunch, the_host_may_start_a_device_exec) {
  DeviceExec target = noting(5);
  target.start(stream());
  target.start(stream());
  stream().synchronize();
  EXPECT_EQ(log().read(), (Tags{5, 5}));
  EXPECT_EQ(target.counters().launches, 2u);
}

TEST_P(SmallDeviceLaunch, a_graph_relaunches_itself_as_often_as_it_asks) {
  const Buffer<unsigned> left = buffer<unsigned>({20});
  Graph graph(device(), "again");
  const auto noted = graph.kernel(note, Grid{}, tag(1));
  const auto more =
      graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = statuses().view()})
          .after(noted);
  graph.kernel(note, Grid{}, tag(2)).after(more);
  DeviceExec exec = graph.instantiate_for_device();
  exec.start(stream());
  stream().synchronize();
  Tags expected;
  for (int pass = 0; pass < 21; ++pass) expected.insert(expected.end(), {1, 2});
  EXPECT_EQ(log().read(), expected);
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 20u);
}

TEST_P(SmallDeviceLaunch, a_relaunch_waits_for_what_the_pass_fired) {
  const DeviceExec fired = noting(5);
  const Buffer<unsigned> left = buffer<unsigned>({3});
  Graph graph(device(), "again");
  const auto noted = graph.kernel(note, Grid{}, tag(1));
  const auto more =
      graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = statuses().view()})
          .after(noted);
  graph.kernel(launch, Grid{}, launching(fired, LaunchMode::fire_and_forget)).after(more);
  DeviceExec exec = graph.instantiate_for_device();
  exec.start(stream());
  stream().synchronize();
  EXPECT_EQ(log().read(), (Tags{1, 5, 1, 5, 1, 5, 1, 5}));
}

TEST_P(SmallDeviceLaunch, a_graph_launched_from_the_device_may_relaunch_itself) {
  const Buffer<unsigned> left = buffer<unsigned>({2});
  Graph inner(device(), "again");
  const auto noted = inner.kernel(note, Grid{}, tag(1));
  inner.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = statuses().view()})
      .after(noted);
  const DeviceExec target = inner.instantiate_for_device();
  const DeviceExec next = noting(9);
  Graph graph(device());
  const auto first = graph.kernel(launch, Grid{}, launching(target, LaunchMode::tail));
  graph.kernel(launch, Grid{}, launching(next, LaunchMode::tail)).after(first);
  run(graph);
  EXPECT_EQ(log().read(), (Tags{1, 1, 1, 9}));
}

TEST_P(SmallDeviceLaunch, a_device_graph_may_hold_copies_fills_and_children) {
  const Buffer<int> x = buffer<int>({0, 0});
  const Buffer<int> y = buffer<int>({3});
  Graph inner(device(), "mixed");
  const auto fill = inner.fill(x.data(), 0, x.bytes());
  const auto copy = inner.copy(x.data(), y.data(), sizeof(int)).after(fill);
  inner
      .child("child",
             [&](Graph& inside) {
               inside.kernel(affine, Grid{},
                             {.x = x.data(), .count = 2, .factor = 2, .summand = 1});
             })
      .after(copy);
  const DeviceExec target = inner.instantiate_for_device();
  Graph graph(device());
  graph.kernel(launch, Grid{}, launching(target, LaunchMode::tail));
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{7, 1}));
}

}  // namespace
}  // namespace attacca::test
