// Tests of the limits on device launches: launches are counted, a launch over the limit gives the
// kernel a status and the next synchronize an error with name and number, and the device works on.
#include <gmock/gmock.h>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Not "Small": hundreds of graphs are too many for compute-sanitizer.
class LaunchBudget : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped()) tally_.emplace(device());
  }
  void TearDown() override {
    tally_.reset();
    targets_.clear();
    graphs_.clear();
    cells_.clear();
    OnEachDevice::TearDown();
  }
  const DeviceTally& statuses() const { return *tally_; }

  /// Makes `count` device graphs. Graph i adds one to cell i of the result.
  const Buffer<int>& make_targets(unsigned count) {
    const Buffer<int>& cells = cells_.emplace_back(device(), std::vector<int>(count));
    std::vector<DeviceGraph> handles;
    for (unsigned at = 0; at < count; ++at) {
      Graph graph(device(), "target");
      graph.kernel(affine, Grid{}, {.x = cells.data() + at, .count = 1, .factor = 1, .summand = 1});
      handles.push_back(targets_.emplace_back(graph.instantiate_for_device()).handle());
    }
    graphs_.emplace_back(device(), handles);
    return cells;
  }
  LaunchManyArgs launching(unsigned first, unsigned count, LaunchMode mode) const {
    return {.graphs = graphs_.back().data() + first,
            .count = count,
            .mode = mode,
            .tally = statuses().view()};
  }
  /// Launches `exec` and expects kernel `node` to be refused, with both numbers in the message.
  template <class Launch>
  void expect_refused(Launch launch_it, const std::string& node, const std::string& first,
                      const std::string& second) {
    launch_it();
    try {
      stream().synchronize();
      FAIL() << "nothing was refused";
    } catch (const LaunchRefused& error) {
      EXPECT_EQ(error.node(), node);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("'" + node + "'"), HasSubstr(first), HasSubstr(second)));
    }
    EXPECT_NO_THROW(stream().synchronize());
  }
  /// Checks that all graphs but the last ran. The last was refused.
  void expect_only_admitted_ran(const Buffer<int>& cells) const {
    std::vector<int> expected(cells.size(), 1);
    expected.back() = 0;
    EXPECT_EQ(cells.read(), expected);
  }
  void expect_refused(Exec& exec, const std::string& node, const std::string& first,
                      const std::string& second) {
    expect_refused([&] { exec.launch(stream()); }, node, first, second);
  }

 private:
  std::optional<DeviceTally> tally_;
  std::vector<DeviceExec> targets_;
  std::vector<Buffer<DeviceGraph>> graphs_;
  std::vector<Buffer<int>> cells_;
};
ATTACCA_ON_EACH_DEVICE(LaunchBudget);

TEST_P(LaunchBudget, the_120th_fire_and_forget_launch_is_made) {
  const Buffer<int>& cells = make_targets(120);
  Graph graph(device());
  graph.kernel(launch_many, Grid{}, launching(0, 120, LaunchMode::fire_and_forget));
  Exec exec = graph.instantiate();
  // The budget is per execution, so a second launch has the whole budget again.
  run(exec);
  run(exec);
  EXPECT_EQ(cells.read(), std::vector<int>(120, 2));
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 240u);
}

TEST_P(LaunchBudget, the_121st_fire_and_forget_launch_is_refused) {
  const Buffer<int>& cells = make_targets(121);
  Graph graph(device(), "firing");
  graph.kernel(launch_many, Grid{}, launching(0, 121, LaunchMode::fire_and_forget)).named("fires");
  Exec exec = graph.instantiate();
  expect_refused(exec, "fires", "121", "120");
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 120u);
  EXPECT_EQ(statuses().of(LaunchStatus::fire_and_forget_budget), 1u);
  expect_only_admitted_ran(cells);
}

TEST_P(LaunchBudget, siblings_count_as_fire_and_forget) {
  make_targets(121);
  Graph graph(device());
  const auto fires =
      graph.kernel(launch_many, Grid{}, launching(0, 60, LaunchMode::fire_and_forget));
  graph.kernel(launch_many, Grid{}, launching(60, 61, LaunchMode::sibling))
      .named("siblings")
      .after(fires);
  Exec exec = graph.instantiate();
  expect_refused(exec, "siblings", "121", "120");
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 120u);
  EXPECT_EQ(statuses().of(LaunchStatus::fire_and_forget_budget), 1u);
}

TEST_P(LaunchBudget, two_kernels_of_one_graph_share_the_budget) {
  make_targets(121);
  Graph graph(device());
  const auto first =
      graph.kernel(launch_many, Grid{}, launching(0, 100, LaunchMode::fire_and_forget))
          .named("first");
  graph.kernel(launch_many, Grid{}, launching(100, 21, LaunchMode::fire_and_forget))
      .named("second")
      .after(first);
  Exec exec = graph.instantiate();
  expect_refused(exec, "second", "121", "120");
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 120u);
}

TEST_P(LaunchBudget, kernels_side_by_side_are_given_no_more_than_the_budget) {
  make_targets(160);
  Graph graph(device());
  for (unsigned at = 0; at < 4; ++at)
    graph.kernel(launch_many, Grid{}, launching(40 * at, 40, LaunchMode::fire_and_forget));
  Exec exec = graph.instantiate();
  for (int round = 0; round < 3; ++round) {
    const unsigned before = statuses().of(LaunchStatus::launched);
    exec.launch(stream());
    EXPECT_THROW(stream().synchronize(), LaunchRefused);
    // The host starts no more kernels after a refusal.
    const unsigned launched = statuses().of(LaunchStatus::launched) - before;
    EXPECT_LE(launched, kMaxFireAndForget);
    EXPECT_TRUE(!is_cuda() || launched == kMaxFireAndForget) << launched;
  }
}

TEST_P(LaunchBudget, two_kernels_of_one_graph_have_the_whole_budget_at_each_launch) {
  const Buffer<int>& cells = make_targets(120);
  Graph graph(device());
  const auto first =
      graph.kernel(launch_many, Grid{}, launching(0, 60, LaunchMode::fire_and_forget));
  graph.kernel(launch_many, Grid{}, launching(60, 60, LaunchMode::fire_and_forget)).after(first);
  Exec exec = graph.instantiate();
  for (int at = 0; at < 3; ++at) run(exec);
  EXPECT_EQ(cells.read(), std::vector<int>(120, 3));
}

TEST_P(LaunchBudget, the_255th_tail_is_launched) {
  const Buffer<int>& cells = make_targets(255);
  Graph graph(device());
  graph.kernel(launch_many, Grid{}, launching(0, 255, LaunchMode::tail));
  run(graph);
  EXPECT_EQ(cells.read(), std::vector<int>(255, 1));
}

TEST_P(LaunchBudget, the_256th_tail_is_refused) {
  const Buffer<int>& cells = make_targets(256);
  Graph graph(device());
  graph.kernel(launch_many, Grid{}, launching(0, 256, LaunchMode::tail)).named("tails");
  Exec exec = graph.instantiate();
  expect_refused(exec, "tails", "256", "255");
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 255u);
  EXPECT_EQ(statuses().of(LaunchStatus::tail_budget), 1u);
  expect_only_admitted_ran(cells);
}

TEST_P(LaunchBudget, after_a_refusal_the_same_graphs_can_be_launched) {
  const Buffer<int>& cells = make_targets(121);
  Graph too_many(device());
  too_many.kernel(launch_many, Grid{}, launching(0, 121, LaunchMode::fire_and_forget))
      .named("fires");
  Exec refused = too_many.instantiate();
  expect_refused(refused, "fires", "121", "120");
  const std::vector<int> before = cells.read();

  Graph enough(device());
  enough.kernel(launch_many, Grid{}, launching(0, 120, LaunchMode::fire_and_forget));
  run(enough);
  std::vector<int> expected = before;
  for (unsigned at = 0; at < 120; ++at) ++expected[at];
  EXPECT_EQ(cells.read(), expected);
}

// --- the small ones -----------------------------------------------------------------------------

class SmallLaunchRefusal : public LaunchBudget {};
ATTACCA_ON_EACH_DEVICE(SmallLaunchRefusal);

TEST_P(SmallLaunchRefusal, a_second_relaunch_in_one_pass_is_refused) {
  const Buffer<unsigned> left = buffer<unsigned>({1});
  Graph graph(device(), "eager");
  graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 2, .tally = statuses().view()})
      .named("twice");
  DeviceExec exec = graph.instantiate_for_device();
  expect_refused([&] { exec.start(stream()); }, "twice", "twice", "1");
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 1u);
  EXPECT_EQ(statuses().of(LaunchStatus::relaunch_budget), 1u);
  EXPECT_EQ(left.read().front(), 0u);
}

TEST_P(SmallLaunchRefusal, a_graph_refused_a_second_relaunch_can_be_launched_again) {
  Buffer<unsigned> left = buffer<unsigned>({1});
  const Buffer<int> x = buffer<int>({0});
  Graph inner(device(), "eager");
  const auto twice =
      inner.kernel(relaunch, Grid{}, {.left = left.data(), .times = 2, .tally = statuses().view()})
          .named("twice");
  const auto count =
      inner.kernel(affine, Grid{}, {.x = x.data(), .count = 1, .factor = 1, .summand = 1});
  twice.after(count);
  const DeviceExec target = inner.instantiate_for_device();
  Graph graph(device());
  graph.kernel(launch, Grid{},
               {.graph = target.handle(), .mode = LaunchMode::tail, .tally = statuses().view()});
  Exec exec = graph.instantiate();
  expect_refused(exec, "twice", "twice", "1");
  const int before = x.read().front();
  left.write(std::vector<unsigned>{0});
  run(exec);
  EXPECT_EQ(x.read().front(), before + 1);
}

TEST_P(SmallLaunchRefusal, a_graph_cannot_launch_itself_by_its_handle_while_it_runs) {
  Buffer<DeviceGraph> self(device(), 1);
  Graph graph(device(), "self");
  graph
      .kernel(launch_many, Grid{},
              {.graphs = self.data(),
               .count = 1,
               .mode = LaunchMode::fire_and_forget,
               .tally = statuses().view()})
      .named("me");
  DeviceExec exec = graph.instantiate_for_device();
  self.write(std::vector<DeviceGraph>{exec.handle()});
  expect_refused([&] { exec.start(stream()); }, "me", "running or already pending",
                 "instantiate it twice");
  EXPECT_EQ(statuses().of(LaunchStatus::busy), 1u);
  EXPECT_EQ(statuses().total(), 1u);
}

TEST_P(SmallLaunchRefusal, a_graph_that_is_pending_as_a_tail_cannot_be_launched_again) {
  make_targets(1);
  Graph graph(device());
  const auto first =
      graph.kernel(launch_many, Grid{}, launching(0, 1, LaunchMode::tail)).named("first");
  graph.kernel(launch_many, Grid{}, launching(0, 1, LaunchMode::tail)).named("second").after(first);
  Exec exec = graph.instantiate();
  expect_refused(exec, "second", "already pending", "instantiate it twice");
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 1u);
  EXPECT_EQ(statuses().of(LaunchStatus::busy), 1u);
}

TEST_P(SmallLaunchRefusal, a_graph_that_is_no_device_graph_cannot_relaunch_itself) {
  const Buffer<unsigned> left = buffer<unsigned>({1});
  Graph graph(device(), "plain");
  graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = statuses().view()})
      .named("again");
  Exec exec = graph.instantiate();
  expect_refused(exec, "again", "'plain'", "instantiate_for_device");
  EXPECT_EQ(statuses().of(LaunchStatus::not_a_device_graph), 1u);
  EXPECT_EQ(statuses().of(LaunchStatus::launched), 0u);
  // The next launch asks for nothing more, so it works.
  run(exec);
}

TEST_P(SmallLaunchRefusal, an_empty_handle_launches_nothing) {
  Graph graph(device(), "plain");
  graph.kernel(launch, Grid{}, {.graph = {}, .mode = LaunchMode::tail, .tally = statuses().view()})
      .named("blank");
  Exec exec = graph.instantiate();
  expect_refused(exec, "blank", "'plain'", "handle of a DeviceExec");
  EXPECT_EQ(statuses().of(LaunchStatus::not_a_device_graph), 1u);
}

TEST_P(SmallLaunchRefusal, a_refusal_in_one_stream_leaves_another_stream_alone) {
  const Buffer<unsigned> left = buffer<unsigned>({1});
  Graph bad(device(), "plain");
  bad.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = statuses().view()})
      .named("again");
  Exec refused = bad.instantiate();
  expect_refused(refused, "again", "again", "plain");
  const Buffer<int> x = buffer<int>({0});
  Stream other(device());
  Graph good(device());
  good.kernel(set_value, Grid{}, {.to = x.data(), .value = 3});
  Exec exec = good.instantiate();
  exec.launch(other);
  EXPECT_NO_THROW(other.synchronize());
  EXPECT_EQ(x.read().front(), 3);
}

}  // namespace
}  // namespace attacca::test
