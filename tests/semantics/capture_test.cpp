// Tests of capture: stream code becomes a graph with the same effect.
#include <attacca/capture.hpp>

#include <atomic>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"
#include "support/raw_cuda.hpp"

namespace attacca::test {
namespace {

class SmallCapture : public OnEachDevice {
 protected:
  AffineArgs step(const Buffer<int>& x, int factor, int summand) const {
    return {.x = x.data(), .count = x.size(), .factor = factor, .summand = summand};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallCapture);

TEST_P(SmallCapture, captured_code_does_not_run_until_it_is_launched) {
  const Buffer<int> x = buffer<int>({1});
  const Graph graph =
      capture(stream(), [&](StreamRef on) { on.kernel(affine, Grid{}, step(x, 2, 0)); });
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 1);
  run(graph);
  EXPECT_EQ(x.read().front(), 2);
}

TEST_P(SmallCapture, linear_code_gives_the_same_as_running_it) {
  const Buffer<int> eager = buffer<int>({1, 2, 3});
  const Buffer<int> captured = buffer<int>({1, 2, 3});
  std::atomic<int> calls{0};
  const auto code = [&](StreamRef on, const Buffer<int>& x) {
    on.kernel(affine, Grid{}, step(x, 3, 1));
    on.fill(x.data() + 1, 0, sizeof(int));
    on.copy(x.data() + 2, x.data(), sizeof(int));
    on.copy(nullptr, nullptr, 0);
    on.host("count", [&] { ++calls; });
    on.library("twice", [&](StreamRef inner) { inner.kernel(affine, Grid{}, step(x, 2, 0)); });
    on.kernel(affine, Grid{}, step(x, 1, -1));
  };
  code(stream(), eager);
  const Graph graph = capture(
      stream(), [&](StreamRef on) { code(on, captured); }, "linear");
  EXPECT_EQ(graph.name(), "linear");
  run(graph);
  EXPECT_EQ(captured.read(), (std::vector<int>{7, -1, 7}));
  EXPECT_EQ(captured.read(), eager.read());
  EXPECT_EQ(calls, 2);
}

TEST_P(SmallCapture, a_stream_forks_and_joins_through_events) {
  const Buffer<int> x = buffer<int>({1, 0, 0, 0});
  int* p = x.data();
  Stream side(device());
  const Event forked(device());
  const Event joined(device());
  const auto code = [&](StreamRef on) {
    on.kernel(affine, Grid{}, {.x = p, .count = 1, .factor = 5, .summand = 0});
    on.record(forked);
    side.wait(forked);
    side.kernel(sum, Grid{}, {.sum = p + 1, .in = {p}, .count = 1, .more = 1});
    on.kernel(sum, Grid{}, {.sum = p + 2, .in = {p}, .count = 1, .more = 2});
    side.record(joined);
    on.wait(joined);
    on.kernel(sum, Grid{}, {.sum = p + 3, .in = {p + 1, p + 2}, .count = 2, .more = 0});
  };
  Graph graph = capture(stream(), code);
  EXPECT_EQ(graph.node_count(), 4u);
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{5, 6, 7, 13}));
  // The same code runs eagerly once the capture is over.
  code(stream());
  stream().synchronize();
  EXPECT_EQ(x.read(), (std::vector<int>{25, 26, 27, 53}));
}

TEST_P(SmallCapture, a_fork_does_not_order_the_two_branches) {
  const Buffer<int> x = buffer<int>({0, 0});
  Stream side(device());
  const Event forked(device());
  const Event joined(device());
  Graph graph = capture(stream(), [&](StreamRef on) {
    on.fill(x.data(), 0, x.bytes());
    on.record(forked);
    side.wait(forked);
    on.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
    side.kernel(set_value, Grid{}, {.to = x.data() + 1, .value = 2});
    side.record(joined);
    on.wait(joined);
  });
  // The edge is added one way and then the other. That closes a cycle only if neither was there.
  EXPECT_EQ(graph.node_count(), 3u);
  EXPECT_TRUE(graph.problems().empty());
  run(graph);
  EXPECT_EQ(x.read(), (std::vector<int>{1, 2}));
}

TEST_P(SmallCapture, a_captured_graph_can_be_extended_and_used_as_a_child) {
  const Buffer<int> x = buffer<int>({1});
  const Graph captured =
      capture(stream(), [&](StreamRef on) { on.kernel(affine, Grid{}, step(x, 2, 0)); });
  Graph graph(device());
  const auto first = graph.child("captured", captured);
  graph.kernel(affine, Grid{}, step(x, 1, 1)).after(first);
  run(graph);
  EXPECT_EQ(x.read().front(), 3);
}

TEST_P(SmallCapture, two_captures_one_after_the_other_do_not_mix) {
  const Buffer<int> x = buffer<int>({1});
  const Graph first =
      capture(stream(), [&](StreamRef on) { on.kernel(affine, Grid{}, step(x, 2, 0)); });
  const Graph second =
      capture(stream(), [&](StreamRef on) { on.kernel(affine, Grid{}, step(x, 1, 1)); });
  EXPECT_EQ(first.node_count(), 1u);
  EXPECT_EQ(second.node_count(), 1u);
  run(second);
  run(first);
  EXPECT_EQ(x.read().front(), 4);
}

TEST_P(SmallCapture, kernels_that_launch_can_be_captured) {
  const Buffer<int> x = buffer<int>({0});
  Graph inner(device(), "inner");
  inner.kernel(set_value, Grid{}, {.to = x.data(), .value = 6});
  const DeviceExec target = inner.instantiate_for_device();
  const DeviceTally statuses(device());
  const Graph graph = capture(stream(), [&](StreamRef on) {
    on.kernel(launch, Grid{},
              {.graph = target.handle(), .mode = LaunchMode::tail, .tally = statuses.view()});
  });
  run(graph);
  EXPECT_EQ(x.read().front(), 6);
}

TEST_P(SmallCapture, raw_cuda_code_becomes_a_graph_on_cuda) {
  const Buffer<int> x = buffer(std::vector<int>(100, 1));
  const auto code = [p = x.data()](void* cuda_stream) {
    launch_raw_add(cuda_stream, p, 2, 100);
    launch_raw_add(cuda_stream, p, 3, 50);
  };
  if (!is_cuda()) {
    EXPECT_THROW(capture_cuda(device(), code), BadArgument);
    return;
  }
  const Graph graph = capture_cuda(device(), code, "raw");
  EXPECT_EQ(graph.name(), "raw");
  Exec exec = graph.instantiate();
  run(exec);
  run(exec);
  std::vector<int> expected(100, 5);
  std::fill(expected.begin(), expected.begin() + 50, 11);
  EXPECT_EQ(x.read(), expected);
}

TEST_P(SmallCapture, raw_cuda_code_can_be_a_child_between_other_nodes) {
  if (!is_cuda()) GTEST_SKIP() << "raw CUDA code needs a CUDA device";
  const Buffer<int> x = buffer<int>({1});
  const Graph raw = capture_cuda(
      device(), [p = x.data()](void* cuda_stream) { launch_raw_add(cuda_stream, p, 10, 1); });
  Graph graph(device());
  const auto before = graph.kernel(affine, Grid{}, step(x, 2, 0));
  const auto middle = graph.child("raw", raw).after(before);
  graph.kernel(affine, Grid{}, step(x, 3, 0)).after(middle);
  run(graph);
  EXPECT_EQ(x.read().front(), 36);
}

}  // namespace
}  // namespace attacca::test
