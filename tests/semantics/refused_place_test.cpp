// Tests of graphs refused because a node is in the wrong place: in a body, in a device graph, or
// outside any graph; and of kernels without a body for their device.
#include "support/kernels.hpp"
#include "support/nested_kernels.hpp"
#include "support/on_each_device.hpp"
#include "support/refusals.hpp"

namespace attacca::test {
namespace {

class SmallRefusedPlace : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (!IsSkipped()) x_.emplace(device(), std::vector<int>{1});
  }
  void TearDown() override {
    x_.reset();
    OnEachDevice::TearDown();
  }
  AffineArgs twice() { return {.x = x_->data(), .count = 1, .factor = 2, .summand = 0}; }
  /// A graph of a kernel and an if around `inside`.
  Graph with_body(const Graph::Fill& inside) {
    Graph graph(device(), "outer");
    const Condition on = graph.condition("on", 1);
    const auto first = graph.kernel(affine, Grid{}, twice());
    graph
        .if_("decode", on,
             [&](Graph& body) {
               body.kernel(affine, Grid{}, twice());
               inside(body);
             })
        .after(first);
    return graph;
  }
  Graph device_graph() {
    Graph graph(device(), "resident");
    graph.kernel(affine, Grid{}, twice());
    return graph;
  }
  void expect_doubles(const Graph& graph, int times) {
    x_->write(std::vector<int>{1});
    run(graph);
    EXPECT_EQ(x_->read().front(), 1 << times);
  }
  /// Checks that the graph is sound without the part that broke it.
  void expect_sound_without() {
    expect_doubles(with_body([](Graph&) {}), 2);
    x_->write(std::vector<int>{1});
    DeviceExec exec = device_graph().instantiate_for_device();
    exec.start(stream());
    stream().synchronize();
    EXPECT_EQ(x_->read().front(), 2);
  }
  const Buffer<int>& x() const { return *x_; }

 private:
  std::optional<Buffer<int>> x_;
};
ATTACCA_ON_EACH_DEVICE(SmallRefusedPlace);

TEST_P(SmallRefusedPlace, an_allocation_in_a_body) {
  const Graph graph = with_body([](Graph& body) { body.allocate<int>("scratch", 4); });
  expect_refused(graph, {Rule::allocation_in_body, "scratch", "allocate before the conditional"});
  EXPECT_NE(std::string(graph.problems().front().what()).find("in the then of if 'decode'"),
            std::string::npos);
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, an_allocation_in_a_child_in_a_body) {
  const Graph graph = with_body([](Graph& body) {
    body.child("child", [](Graph& inside) { inside.allocate<int>("scratch", 4); });
  });
  expect_refused(graph, {Rule::allocation_in_body, "scratch", "Arena"});
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_free_in_a_body) {
  Graph graph(device());
  const Condition on = graph.condition("on", 1);
  const auto scratch = graph.allocate<int>("scratch", 4);
  graph.if_("decode", on, [&](Graph& body) { body.free(static_cast<void*>(scratch.data())); })
      .after(scratch);
  expect_refused(graph, {Rule::allocation_in_body, "free scratch", "allocate before"});
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, an_allocation_in_a_device_graph) {
  Graph graph = device_graph();
  graph.allocate<int>("scratch", 4);
  expect_refused_for_device(graph, {Rule::allocation_in_device_graph, "scratch", "use an Arena"});
  // The host may launch it.
  expect_doubles(graph, 1);
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_conditional_in_a_device_graph) {
  const Graph graph = with_body([](Graph&) {});
  expect_refused_for_device(
      graph, {Rule::conditional_in_device_graph, "decode", "launch one of several device graphs"});
  expect_doubles(graph, 2);
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_host_call_in_a_body) {
  const Graph graph = with_body([](Graph& body) { body.host("log it", [] {}); });
  expect_refused(graph, {Rule::node_in_body, "log it", "move it outside"});
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_host_call_in_a_device_graph) {
  Graph graph = device_graph();
  graph.host("log it", [] {});
  expect_refused_for_device(graph, {Rule::node_in_device_graph, "log it", "launching side"});
  expect_doubles(graph, 1);
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_launching_kernel_in_a_body) {
  const DeviceExec target = device_graph().instantiate_for_device();
  const Graph graph = with_body([&](Graph& body) {
    body.kernel(launch, Grid{}, {.graph = target.handle(), .mode = LaunchMode::tail, .tally = {}});
  });
  expect_refused(graph, {Rule::launch_in_body, "launch", "move it out"});
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_launching_kernel_on_a_stream) {
  const DeviceExec target = device_graph().instantiate_for_device();
  const LaunchArgs args{.graph = target.handle(), .mode = LaunchMode::tail, .tally = {}};
  expect_throws([&] { stream().kernel(launch, Grid{}, args); },
                {Rule::launch_outside_graph, "launch", "add it to one"});
  Graph graph(device());
  graph.kernel(launch, Grid{}, args);
  expect_doubles(graph, 1);
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_spawning_kernel_in_a_body) {
  const Buffer<unsigned> leaves = buffer<unsigned>({0});
  const Graph graph = with_body(
      [&](Graph& body) { body.kernel(tree, Grid{}, {.leaves = leaves.data(), .depth = 1}); });
  expect_refused(graph, {Rule::spawn_in_body, "tree", "move it out"});
  expect_sound_without();
}

TEST_P(SmallRefusedPlace, a_spawning_kernel_in_a_device_graph) {
  const Buffer<unsigned> leaves = buffer<unsigned>({0});
  Graph graph = device_graph();
  graph.kernel(tree, Grid{}, {.leaves = leaves.data(), .depth = 1});
  expect_refused_for_device(graph, {Rule::spawn_in_device_graph, "tree", "launch graphs instead"});
  expect_doubles(graph, 1);
  EXPECT_EQ(leaves.read().front(), 2u);
  expect_sound_without();
}

/// A kernel in a file that nvcc does not compile.
struct HostOnly {
  static constexpr const char* name = "host_only";
  using Args = SetArgs;
  static Cost cost(const Args&) { return {}; }
  static void body(Thread& t, const Args& a) {
    if (t.is_first()) *a.to = a.value;
  }
};

TEST_P(SmallRefusedPlace, a_kernel_without_a_body_for_its_device) {
  const Kernel<SetArgs> host_only = make_kernel<HostOnly>();
  const SetArgs args{.to = x().data(), .value = 4};
  Graph graph(device());
  graph.kernel(host_only, Grid{}, args);
  if (is_cuda()) {
    const Expected expected{Rule::no_body_for_backend, "host_only", "attacca_kernels"};
    expect_refused(graph, expected);
    expect_refused_for_device(graph, expected);
    expect_throws([&] { stream().kernel(host_only, Grid{}, args); }, expected);
  } else {
    expect_doubles(graph, 2);
  }
  expect_sound_without();
}

}  // namespace
}  // namespace attacca::test
