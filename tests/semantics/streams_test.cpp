// Tests of devices, streams and events, and of execs launched more than once or concurrently.
#include <atomic>
#include <future>
#include <thread>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"
#include "support/raw_cuda.hpp"

namespace attacca::test {
namespace {

class SmallStreams : public OnEachDevice {
 protected:
  AffineArgs step(const Buffer<int>& x, int factor, int summand) const {
    return {.x = x.data(), .count = x.size(), .factor = factor, .summand = summand};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallStreams);

TEST_P(SmallStreams, work_on_a_stream_runs_in_order) {
  const Buffer<int> x = buffer<int>({1});
  const Buffer<int> y = buffer<int>({0});
  std::vector<int> calls;
  for (int at = 0; at < 3; ++at) {
    stream().kernel(affine, Grid{}, step(x, 2, 1));
    stream().host("note", [&calls, at] { calls.push_back(at); });
  }
  stream().copy(y.data(), x.data(), sizeof(int));
  stream().fill(x.data(), 0, sizeof(int));
  stream().synchronize();
  EXPECT_EQ(y.read().front(), 15);
  EXPECT_EQ(x.read().front(), 0);
  EXPECT_EQ(calls, (std::vector<int>{0, 1, 2}));
}

TEST_P(SmallStreams, the_same_exec_launched_twice_runs_twice_in_order) {
  const Buffer<int> x = buffer(std::vector<int>(2000, 1));
  Graph graph(device());
  const auto first = graph.kernel(affine, Grid::covering(2000), step(x, 2, 0));
  graph.kernel(affine, Grid::covering(2000), step(x, 1, 1)).after(first);
  Exec exec = graph.instantiate();
  for (int at = 0; at < 4; ++at) exec.launch(stream());
  stream().synchronize();
  EXPECT_EQ(x.read(), std::vector<int>(2000, 31));
}

TEST_P(SmallStreams, launches_of_one_exec_on_two_streams_do_not_overlap) {
  // Each launch adds one in two steps, which would lose counts if two launches interleaved.
  const Buffer<int> x = buffer<int>({0, 0});
  Graph graph(device());
  const auto read = graph.copy(x.data() + 1, x.data(), sizeof(int));
  const auto add =
      graph.kernel(affine, Grid{}, {.x = x.data() + 1, .count = 1, .factor = 1, .summand = 1})
          .after(read);
  graph.copy(x.data(), x.data() + 1, sizeof(int)).after(add);
  Exec exec = graph.instantiate();
  Stream other(device());
  for (int at = 0; at < 50; ++at) {
    exec.launch(stream());
    exec.launch(other);
  }
  stream().synchronize();
  other.synchronize();
  EXPECT_EQ(x.read().front(), 100);
  EXPECT_EQ(exec.counters().launches, 100u);
}

TEST_P(SmallStreams, two_execs_at_once_on_two_streams) {
  const Buffer<int> x = buffer(std::vector<int>(500, 1));
  const Buffer<int> y = buffer(std::vector<int>(500, 1));
  const auto make = [&](const Buffer<int>& on, int factor) {
    Graph graph(device());
    std::vector<Node> branches;
    const auto start = graph.kernel(affine, Grid{}, step(on, factor, 0));
    for (int at = 0; at < 5; ++at)
      branches.push_back(
          graph
              .kernel(affine, Grid{},
                      {.x = on.data() + 100 * at, .count = 100, .factor = 1, .summand = at})
              .after(start));
    graph.kernel(affine, Grid{}, step(on, 1, 1)).after(branches);
    return graph.instantiate();
  };
  Exec first = make(x, 1);
  Exec second = make(y, -1);
  Stream other(device());
  for (int at = 0; at < 20; ++at) {
    first.launch(stream());
    second.launch(other);
  }
  stream().synchronize();
  other.synchronize();
  for (int at = 0; at < 5; ++at) {
    EXPECT_EQ(x.read()[100 * at], 1 + 20 * (at + 1));
    EXPECT_EQ(y.read()[100 * at + 99], 1);
  }
}

TEST_P(SmallStreams, two_execs_on_two_streams_overlap_on_the_host) {
  if (is_cuda()) GTEST_SKIP() << "the driver may run host calls one at a time";
  // Each waits for the other, so both must be running at once.
  std::promise<void> here;
  std::promise<void> there;
  Graph first(device());
  first.host("first", [&, other = there.get_future().share()] {
    here.set_value();
    other.wait();
  });
  Graph second(device());
  second.host("second", [&, other = here.get_future().share()] {
    there.set_value();
    other.wait();
  });
  Stream side(device());
  Exec a = first.instantiate();
  Exec b = second.instantiate();
  a.launch(stream());
  b.launch(side);
  stream().synchronize();
  side.synchronize();
}

TEST_P(SmallStreams, branches_of_one_graph_overlap_where_there_are_threads) {
  if (GetParam() != DeviceKind::host_threads) GTEST_SKIP() << "one at a time here";
  std::promise<void> here;
  std::promise<void> there;
  Graph graph(device());
  graph.host("first", [&, other = there.get_future().share()] {
    here.set_value();
    other.wait();
  });
  graph.host("second", [&, other = here.get_future().share()] {
    there.set_value();
    other.wait();
  });
  run(graph);
}

TEST_P(SmallStreams, a_stream_waits_for_an_event_of_another) {
  const Buffer<int> x = buffer<int>({1});
  Stream other(device());
  const Event ready(device());
  // This launch loads the kernel. Later, CUDA would wait for the host call below first.
  stream().kernel(affine, Grid{}, step(x, 1, 0));
  stream().synchronize();
  std::promise<void> gate;
  other.host("gate", [opened = gate.get_future().share()] { opened.wait(); });
  other.kernel(affine, Grid{}, step(x, 5, 0));
  other.record(ready);
  stream().wait(ready);
  stream().kernel(affine, Grid{}, step(x, 1, 1));
  gate.set_value();
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 6);
}

TEST_P(SmallStreams, an_event_never_recorded_holds_nothing_back) {
  const Event never(device());
  stream().wait(never);
  stream().synchronize();
}

TEST_P(SmallStreams, an_event_recorded_again_stands_for_the_later_point) {
  const Buffer<int> x = buffer<int>({1});
  Stream other(device());
  const Event ready(device());
  other.record(ready);
  other.kernel(affine, Grid{}, step(x, 5, 0));
  other.record(ready);
  stream().wait(ready);
  stream().kernel(affine, Grid{}, step(x, 1, 1));
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 6);
}

TEST_P(SmallStreams, execs_of_two_streams_are_ordered_by_events) {
  const DeviceLog log(device());
  const auto noting = [&](int tag) {
    Graph graph(device());
    graph.kernel(note, Grid{}, {.log = log.view(), .tag = tag});
    return graph.instantiate();
  };
  Exec a = noting(1);
  Exec b = noting(2);
  Stream other(device());
  const Event ping(device());
  const Event pong(device());
  for (int at = 0; at < 3; ++at) {
    a.launch(stream());
    stream().record(ping);
    other.wait(ping);
    b.launch(other);
    other.record(pong);
    stream().wait(pong);
  }
  stream().synchronize();
  EXPECT_EQ(log.read(), (std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST_P(SmallStreams, destroying_a_stream_waits_for_its_work) {
  const Buffer<int> x = buffer<int>({1});
  std::atomic<bool> has_run{false};
  {
    Stream brief(device());
    brief.kernel(affine, Grid{}, step(x, 3, 0));
    brief.host("last", [&] { has_run = true; });
  }
  EXPECT_TRUE(has_run);
  EXPECT_EQ(x.read().front(), 3);
}

TEST_P(SmallStreams, a_moved_stream_goes_on) {
  const Buffer<int> x = buffer<int>({1});
  Stream first(device());
  first.kernel(affine, Grid{}, step(x, 3, 0));
  Stream second = std::move(first);
  second.kernel(affine, Grid{}, step(x, 1, 1));
  second.synchronize();
  EXPECT_EQ(x.read().front(), 4);
}

TEST_P(SmallStreams, streams_of_one_device_may_be_used_from_two_threads) {
  const Buffer<int> x = buffer<int>({0, 0});
  const auto work = [&](int at) {
    Stream own(device());
    Graph graph(device());
    graph.kernel(affine, Grid{}, {.x = x.data() + at, .count = 1, .factor = 1, .summand = at + 1});
    Exec exec = graph.instantiate();
    for (int round = 0; round < 50; ++round) exec.launch(own);
    own.synchronize();
  };
  std::thread second(work, 1);
  work(0);
  second.join();
  EXPECT_EQ(x.read(), (std::vector<int>{50, 100}));
}

TEST_P(SmallStreams, a_device_has_a_name_that_finds_it_again) {
  if (GetParam() == DeviceKind::host_threads) {
    EXPECT_EQ(Device::from_name("host"), Device::host());
    EXPECT_NE(Device::host(4), Device::host(4)) << "a device of its own each time";
  } else {
    EXPECT_EQ(Device::from_name(device().name()), device());
  }
  EXPECT_EQ(stream().device(), device());
  EXPECT_EQ(stream().native() != nullptr, is_cuda());
  EXPECT_EQ(device().is_cuda(), is_cuda());
  EXPECT_EQ(device().kind(), GetParam());
  EXPECT_THROW(Device::from_name("tpu"), BadArgument);
  EXPECT_THROW(Device::from_name("cuda:x"), BadArgument);
  EXPECT_THROW(Device::cuda(Device::cuda_count()), BadArgument);
  EXPECT_THROW(Device::host(0), BadArgument);
}

TEST_P(SmallStreams, a_device_counts_its_processors) {
  switch (GetParam()) {
    case DeviceKind::host_serial:
      EXPECT_EQ(device().processors(), 1u);
      break;
    case DeviceKind::host_threads:
      EXPECT_EQ(device().processors(), 4u) << "the workers it was made with";
      EXPECT_EQ(Device::host(3).processors(), 3u);
      EXPECT_EQ(Device::host().processors(), std::max(1u, std::thread::hardware_concurrency()));
      break;
    case DeviceKind::cuda:
      EXPECT_EQ(device().processors(), count_raw_processors());
      break;
  }
}

TEST_P(SmallStreams, occupancy_counts_the_same_processors) {
  const Occupancy launch = occupancy(device(), affine, Grid{Dim3{1}, Dim3{128}});
  EXPECT_EQ(launch.residency.processors, device().processors());
}

}  // namespace
}  // namespace attacca::test
