// Tests of nodes that fail while a graph runs: synchronize names the node once, and then all works.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;

class SmallFailure : public OnEachDevice {
 protected:
  /// Synchronizes and expects `node` to have failed with `reason`.
  void expect_failed(StreamRef on, const std::string& node, const std::string& reason) {
    try {
      on.synchronize();
      FAIL() << "nothing failed";
    } catch (const NodeFailed& error) {
      EXPECT_EQ(error.node(), node);
      EXPECT_THAT(error.what(), HasSubstr("'" + node + "'"));
      EXPECT_THAT(error.what(), HasSubstr(reason));
    }
    EXPECT_NO_THROW(on.synchronize()) << "a failure is reported once";
  }
};
ATTACCA_ON_EACH_DEVICE(SmallFailure);

TEST_P(SmallFailure, a_host_call_that_throws_is_named_at_synchronize) {
  Graph graph(device(), "fragile");
  graph.host("read file", [] { throw std::runtime_error("no such file"); });
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "read file", "no such file");
}

TEST_P(SmallFailure, the_next_launch_of_the_same_exec_works) {
  std::atomic<bool> fails{true};
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device(), "fragile");
  const auto call = graph.host("maybe", [&] {
    if (fails) throw std::runtime_error("not this time");
  });
  graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 5}).after(call);
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "maybe", "not this time");
  fails = false;
  run(exec);
  EXPECT_EQ(x.read().front(), 5);
}

TEST_P(SmallFailure, something_thrown_that_is_no_exception_is_reported_too) {
  Graph graph(device());
  graph.host("odd", [] { throw 42; });
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "odd", "odd");
}

TEST_P(SmallFailure, of_several_failures_one_is_reported) {
  Graph graph(device());
  for (int at = 0; at < 8; ++at) graph.host("fails", [] { throw std::runtime_error("each"); });
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "fails", "each");
}

TEST_P(SmallFailure, a_host_call_of_a_stream_that_throws_is_named_at_synchronize) {
  stream().host("eager", [] { throw std::runtime_error("gave up"); });
  expect_failed(stream(), "eager", "gave up");
  stream().host("odd", [] { throw 42; });
  expect_failed(stream(), "odd", "no exception");
}

TEST_P(SmallFailure, a_failing_exec_does_not_disturb_another_on_another_stream) {
  Stream other(device());
  const Buffer<int> x = buffer(std::vector<int>(100, 0));
  Graph bad(device(), "bad");
  bad.host("fails", [] { throw std::runtime_error("on purpose"); });
  Graph good(device(), "good");
  Node last = good.fill(x.data(), 0, x.bytes());
  for (int at = 0; at < 20; ++at)
    last = good.kernel(affine, Grid{}, {.x = x.data(), .count = 100, .factor = 1, .summand = 1})
               .after(last);
  Exec bad_exec = bad.instantiate();
  Exec good_exec = good.instantiate();
  for (int round = 0; round < 5; ++round) {
    good_exec.launch(other);
    bad_exec.launch(stream());
    good_exec.launch(other);
    expect_failed(stream(), "fails", "on purpose");
    EXPECT_NO_THROW(other.synchronize());
    EXPECT_EQ(x.read(), std::vector<int>(100, 20));
  }
}

TEST_P(SmallFailure, later_work_of_the_stream_still_runs) {
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device());
  graph.host("fails", [] { throw std::runtime_error("on purpose"); });
  Exec exec = graph.instantiate();
  exec.launch(stream());
  stream().kernel(set_value, Grid{}, {.to = x.data(), .value = 3});
  expect_failed(stream(), "fails", "on purpose");
  EXPECT_EQ(x.read().front(), 3);
}

TEST_P(SmallFailure, a_failure_in_a_child_names_the_node_inside) {
  Graph graph(device());
  graph.child("outer", [](Graph& inside) {
    inside.host("inner", [] { throw std::runtime_error("deep down"); });
  });
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "inner", "deep down");
}

TEST_P(SmallFailure, a_kernel_body_that_throws_is_named_on_the_host) {
  if (is_cuda()) GTEST_SKIP() << "device code does not throw";
  const Buffer<int> x = buffer<int>({0});
  Graph graph(device(), "fragile");
  const auto bad = graph.kernel(throw_on_host, Grid{}, {.unused = 0}).named("thrower");
  graph.kernel(set_value, Grid{}, {.to = x.data(), .value = 1}).after(bad);
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "thrower", "the body gave up");
  EXPECT_EQ(x.read().front(), 0) << "nothing new starts after a failure";
  exec.enable(bad, false);
  run(exec);
  EXPECT_EQ(x.read().front(), 1);
  stream().kernel(throw_on_host, Grid{}, {.unused = 0});
  expect_failed(stream(), "throw_on_host", "the body gave up");
}

TEST_P(SmallFailure, a_loop_ends_when_a_node_in_it_fails_on_the_host) {
  if (is_cuda()) GTEST_SKIP() << "device code does not throw";
  const Buffer<unsigned> left = buffer<unsigned>({1000});
  Graph graph(device());
  graph.while_("loop", [&](Graph& body, Condition again) {
    const auto bad = body.kernel(throw_on_host, Grid{}, {.unused = 0}).named("thrower");
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(bad);
  });
  Exec exec = graph.instantiate();
  exec.launch(stream());
  expect_failed(stream(), "thrower", "the body gave up");
}

TEST_P(SmallFailure, a_failure_inside_a_graph_launched_from_the_device_is_named_on_the_host) {
  if (is_cuda()) GTEST_SKIP() << "device code does not throw";
  Graph inner(device(), "inner");
  inner.kernel(throw_on_host, Grid{}, {.unused = 0}).named("thrower");
  const DeviceExec target = inner.instantiate_for_device();
  for (const LaunchMode mode :
       {LaunchMode::tail, LaunchMode::fire_and_forget, LaunchMode::sibling}) {
    Graph graph(device());
    graph.kernel(launch, Grid{}, {.graph = target.handle(), .mode = mode, .tally = {}});
    Exec exec = graph.instantiate();
    exec.launch(stream());
    expect_failed(stream(), "thrower", "of graph 'inner' failed");
  }
}

TEST_P(SmallFailure, a_library_call_that_throws_is_reported) {
  Graph graph(device());
  graph.library("broken", [](StreamRef) { throw std::runtime_error("cannot plan"); });
  // CUDA calls the function when the graph is instantiated, the host when it runs.
  EXPECT_THROW(run(graph), std::runtime_error);
}

}  // namespace
}  // namespace attacca::test
