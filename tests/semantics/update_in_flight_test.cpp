// Tests of updates while launches of the exec wait or run: each launch has the parameters from when
// it was made, whatever was set since.
#include <algorithm>
#include <future>
#include <utility>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallUpdateInFlight : public OnEachDevice {
 protected:
  /// Holds a stream back until it is opened.
  class Gate {
   public:
    explicit Gate(StreamRef stream) {
      stream.host("gate", [opened = opened_.get_future().share()] { opened.wait(); });
    }
    void open() { opened_.set_value(); }

   private:
    std::promise<void> opened_;
  };
};
ATTACCA_ON_EACH_DEVICE(SmallUpdateInFlight);

TEST_P(SmallUpdateInFlight, a_launch_that_runs_keeps_the_parameters_of_nodes_it_has_not_reached) {
  const DeviceLog log(device());
  const auto tagged = [&](int tag) { return NoteArgs{.log = log.view(), .tag = tag}; };
  std::promise<void> reached;
  std::promise<void> opened;
  bool is_first = true;
  Graph graph(device());
  const auto before = graph.kernel(note, Grid{}, tagged(1));
  const auto gate = graph
                        .host("gate",
                              [&] {
                                if (!std::exchange(is_first, false)) return;
                                reached.set_value();
                                opened.get_future().wait();
                              })
                        .after(before);
  const auto after = graph.kernel(note, Grid{}, tagged(2)).after(gate);
  const auto last = graph.kernel(note, Grid{}, tagged(3)).after(after);
  Exec exec = graph.instantiate();
  exec.launch(stream());
  reached.get_future().wait();
  EXPECT_TRUE(exec.set(before, tagged(10)));
  EXPECT_TRUE(exec.set(after, tagged(20)));
  EXPECT_TRUE(exec.enable(last, false));
  EXPECT_TRUE(exec.set(after, tagged(21)));
  opened.set_value();
  exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(log.read(), (std::vector<int>{1, 2, 3, 10, 21}));
}

TEST_P(SmallUpdateInFlight, each_of_many_launches_has_its_own_parameters) {
  const DeviceLog log(device());
  const auto tagged = [&](int tag) { return NoteArgs{.log = log.view(), .tag = tag}; };
  Graph graph(device());
  const auto first = graph.kernel(note, Grid{}, tagged(0));
  const auto second = graph.kernel(note, Grid{}, tagged(0)).after(first);
  Exec exec = graph.instantiate();
  std::vector<int> expected;
  int tag = 0;
  int second_tag = 0;
  for (int round = 0; round < 4; ++round) {
    Gate gate(stream());
    for (int at = 0; at < 5; ++at) {
      const bool has_second = (at + round) % 3 != 0;
      EXPECT_TRUE(exec.set(first, tagged(++tag)));
      EXPECT_TRUE(exec.enable(second, has_second));
      if (at % 2) exec.set(second, tagged(second_tag = -tag));
      exec.launch(stream());
      expected.push_back(tag);
      if (has_second) expected.push_back(second_tag);
    }
    gate.open();
    stream().synchronize();
  }
  EXPECT_EQ(log.read(), expected);
}

TEST_P(SmallUpdateInFlight, a_node_takes_nothing_over_from_another_that_was_set_before) {
  // The host executor uses the memory of old parameters again, for whichever node is set next.
  const Buffer<int> from = buffer<int>({7});
  const Buffer<int> to = buffer<int>({0});
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  const auto kernel = graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const auto copy = graph.copy(to.data(), from.data(), sizeof(int)).after(kernel);
  const auto fill = graph.fill(x.data(), 0xff, 1).after(copy);
  Exec exec = graph.instantiate();
  const auto in_flight = [&](auto change) {
    Gate gate(stream());
    exec.launch(stream());
    change();
    gate.open();
    stream().synchronize();
  };
  in_flight([&] { exec.enable(fill, false); });
  in_flight([&] { exec.set(kernel, {.to = x.data(), .value = 2}); });
  in_flight([&] { exec.set(copy, x.data(), from.data(), sizeof(int)); });
  in_flight([&] { exec.set(kernel, {.to = to.data(), .value = 3}); });
  run(exec);
  EXPECT_EQ(to.read().front(), 3);
  EXPECT_EQ(x.read().front(), 7);
}

TEST_P(SmallUpdateInFlight, large_arguments_stay_with_their_launch) {
  const Buffer<int> sums = buffer(std::vector<int>(12, 0));
  const auto at = [&](int place) {
    return SumArgs{.sum = sums.data() + place, .in = {}, .count = 0, .more = place};
  };
  Graph graph(device());
  const auto node = graph.kernel(sum, Grid{}, at(0));
  Exec exec = graph.instantiate();
  std::vector<int> expected;
  for (int place = 0; place < 12;) {
    Gate gate(stream());
    for (int end = place + 4; place < end; ++place) {
      EXPECT_TRUE(exec.set(node, at(place)));
      exec.launch(stream());
      expected.push_back(place);
    }
    gate.open();
    stream().synchronize();
  }
  EXPECT_EQ(sums.read(), expected);
}

TEST_P(SmallUpdateInFlight, a_loop_is_updated_behind_its_launch) {
  const Buffer<int> x = buffer<int>({0});
  const Buffer<unsigned> passes = buffer<unsigned>({3});
  const Buffer<unsigned> left = buffer<unsigned>({0});
  const auto make = [&](int summand) {
    Graph graph(device());
    const auto start = graph.copy(left.data(), passes.data(), sizeof(unsigned));
    graph
        .while_("loop",
                [&](Graph& body, Condition again) {
                  const auto add = body.kernel(
                      affine, Grid{}, {.x = x.data(), .count = 1, .factor = 1, .summand = summand});
                  body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(add);
                })
        .after(start);
    return graph;
  };
  Exec exec = make(1).instantiate();
  Gate gate(stream());
  exec.launch(stream());
  exec.update(make(100));
  exec.launch(stream());
  exec.update(make(10000));
  gate.open();
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 303);
  run(exec);
  EXPECT_EQ(x.read().front(), 30303);
}

TEST_P(SmallUpdateInFlight, the_memory_of_old_parameters_is_used_again) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  std::vector<KernelNode<SetArgs>> nodes;
  for (int at = 0; at < 20; ++at)
    nodes.push_back(graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 0}));
  for (std::size_t at = 1; at < nodes.size(); ++at) nodes[at].after(nodes[at - 1]);
  Exec exec = graph.instantiate();
  const auto round = [&](int value) {
    Gate gate(stream());
    exec.launch(stream());
    for (const auto& node : nodes) exec.set(node, {.to = x.data(), .value = value});
    gate.open();
    stream().synchronize();
    return exec.memory().host_bytes;
  };
  const std::size_t bytes = round(1);
  for (int value = 2; value < 10; ++value) EXPECT_EQ(round(value), bytes);
}

TEST_P(SmallUpdateInFlight, a_run_of_a_graph_that_relaunches_itself_sees_a_whole_update) {
  if (is_cuda()) GTEST_SKIP() << "host and device may not use one exec at a time";
  constexpr unsigned kRuns = 200;
  const DeviceLog log(device());
  const Buffer<unsigned> left = buffer<unsigned>({kRuns - 1});
  const auto make = [&](int tag) {
    Graph graph(device(), "again");
    const auto first = graph.kernel(note, Grid{}, {.log = log.view(), .tag = tag});
    const auto second = graph.kernel(note, Grid{}, {.log = log.view(), .tag = tag}).after(first);
    graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = {}}).after(second);
    return graph;
  };
  DeviceExec exec = make(0).instantiate_for_device();
  exec.start(stream());
  for (int tag = 1; tag < 50; ++tag) EXPECT_TRUE(exec.update(make(tag)));
  stream().synchronize();
  const std::vector<int> tags = log.read();
  ASSERT_EQ(tags.size(), 2 * kRuns);
  EXPECT_TRUE(std::is_sorted(tags.begin(), tags.end()));
  for (unsigned run = 0; run < kRuns; ++run) EXPECT_EQ(tags[2 * run], tags[2 * run + 1]);
}

}  // namespace
}  // namespace attacca::test
