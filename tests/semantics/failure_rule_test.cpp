// Tests of docs/failures.md, line by line: whatever fails, device work goes on, host calls of the
// stream wait until synchronize has thrown the error, and other streams do not see it.
#include <gmock/gmock.h>

#include <atomic>
#include <stdexcept>

#include "core/fault_sources.hpp"
#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/nested_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

class SmallFailureRule : public OnEachDevice {
 protected:
  struct Mistake {
    std::string what;
    std::function<Node(Graph&)> add;  // a node called "culprit"
    std::string says;
    std::function<bool(const NodeFailed&)> is_right_type;
    bool is_kernel = true;
  };

  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    left_.emplace(device(), std::vector<unsigned>{1000});
    count_.emplace(device(), std::vector<unsigned>{0});
    tally_.emplace(device());
  }
  void TearDown() override {
    left_.reset();
    count_.reset();
    tally_.reset();
    OnEachDevice::TearDown();
  }

  /// One mistake for each line of the table. They fail while `is_failing_` is set.
  std::vector<Mistake> mistakes() {
    const auto is = []<class E>() {
      return [](const NodeFailed& error) { return dynamic_cast<const E*>(&error) != nullptr; };
    };
    const auto is_plain = [](const NodeFailed& error) {
      return typeid(error) == typeid(NodeFailed);
    };
    const auto host = [this](auto thrown) {
      return [this, thrown](Graph& graph) -> Node {
        return graph.host("culprit", [this, thrown] {
          if (is_failing_) throw thrown;
        });
      };
    };
    const auto kernel = [](auto add) {
      return [add](Graph& graph) -> Node { return add(graph).named("culprit"); };
    };
    return {
        {"a host call throws", host(std::runtime_error("no such file")), "no such file", is_plain,
         false},
        {"a host call throws a number", host(42), "no exception", is_plain, false},
        {"a launch is refused", kernel([this](Graph& graph) {
           return graph.kernel(relaunch, Grid{},
                               {.left = left_->data(), .times = 1, .tally = tally_->view()});
         }),
         "instantiate_for_device", is.operator()<LaunchRefused>()},
        {"a spawn is refused", kernel([this](Graph& graph) {
           return graph.kernel(
               spawn_grid, Grid{},
               {.count = count_->data(), .grid = Grid{{1}, {2048}}, .tally = tally_->view()});
         }),
         "2048x1x1 threads", is.operator()<LaunchRefused>()},
        {"a wait gives up", kernel([](Graph& graph) {
           return graph.kernel(give_up, Grid{{2}, {2}},
                               {.block = kEveryBlock, .wanted = 3, .seen = 2});
         }),
         "a letter", is.operator()<WaitOverdue>()},
        {"a source breaks", kernel([this](Graph& graph) {
           return graph.kernel(lose_source, Grid{}, {.source = source_.number()});
         }),
         "the well is dry", is.operator()<SourceBroken>()},
    };
  }
  /// Changes the exec so that it does not fail from here on.
  void repair(Exec& exec, const Node& culprit, const Mistake& mistake) {
    is_failing_ = false;
    if (mistake.is_kernel) exec.enable(culprit, false);
  }

  void expect_failed(StreamRef on, const Mistake& mistake) {
    try {
      on.synchronize();
      FAIL() << "nothing failed: " << mistake.what;
    } catch (const NodeFailed& error) {
      EXPECT_EQ(error.node(), "culprit");
      EXPECT_THAT(error.what(), AllOf(HasSubstr("'culprit'"), HasSubstr(mistake.says),
                                      Not(HasSubstr("failed too"))));
      EXPECT_TRUE(mistake.is_right_type(error)) << mistake.what << ": " << typeid(error).name();
    }
    EXPECT_NO_THROW(on.synchronize()) << "a failure is reported once";
  }

  std::atomic<bool> is_failing_{true};

 private:
  core::FaultSource source_{[] { return std::string("the well is dry"); }};
  std::optional<Buffer<unsigned>> left_;
  std::optional<Buffer<unsigned>> count_;
  std::optional<DeviceTally> tally_;
};
ATTACCA_ON_EACH_DEVICE(SmallFailureRule);

TEST_P(SmallFailureRule, device_work_goes_on_and_host_calls_wait_for_synchronize) {
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    is_failing_ = true;
    const Buffer<int> ran = buffer<int>({0, 0, 0});
    std::atomic<int> behind{0};
    std::atomic<int> later{0};
    Graph graph(device(), "fragile");
    const Node culprit = mistake.add(graph);
    const auto next =
        graph.kernel(affine, Grid{}, {.x = ran.data(), .count = 1, .factor = 1, .summand = 1})
            .after(culprit);
    const auto call = graph.host("behind", [&] { ++behind; }).after(next);
    graph.fill(ran.data() + 1, 1, sizeof(int)).after(call);
    Exec exec = graph.instantiate();

    exec.launch(stream());
    exec.launch(stream());  // the culprit fails again, which counts as the same failure
    stream().kernel(set_value, Grid{}, {.to = ran.data() + 2, .value = 1});
    stream().host("later", [&] { ++later; });
    expect_failed(stream(), mistake);
    EXPECT_EQ(ran.read(), (std::vector<int>{2, 0x01010101, 1})) << "device work goes on";
    EXPECT_EQ(behind, 0);
    EXPECT_EQ(later, 0);

    repair(exec, culprit, mistake);
    stream().host("later", [&] { ++later; });
    exec.launch(stream());
    EXPECT_NO_THROW(stream().synchronize());
    EXPECT_EQ(behind, 1);
    EXPECT_EQ(later, 1);
  }
}

TEST_P(SmallFailureRule, another_stream_sees_nothing_of_it) {
  Stream other(device());
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    is_failing_ = true;
    const Buffer<int> ran = buffer<int>({0});
    std::atomic<int> calls{0};
    Graph bad(device(), "fragile");
    mistake.add(bad);
    Graph good(device(), "sound");
    const auto call = good.host("call", [&] { ++calls; });
    good.kernel(set_value, Grid{}, {.to = ran.data(), .value = 1}).after(call);
    Exec bad_exec = bad.instantiate();
    Exec good_exec = good.instantiate();
    const Event failed(device());
    bad_exec.launch(stream());
    stream().record(failed);
    other.wait(failed);
    good_exec.launch(other);
    other.host("call", [&] { ++calls; });
    EXPECT_NO_THROW(other.synchronize());
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(ran.read().front(), 1);
    expect_failed(stream(), mistake);
  }
}

TEST_P(SmallFailureRule, a_failure_on_a_stream_holds_back_the_host_calls_of_graphs_behind_it) {
  std::atomic<int> calls{0};
  Graph graph(device(), "sound");
  graph.host("call", [&] { ++calls; });
  Exec exec = graph.instantiate();
  stream().kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0});
  exec.launch(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(HasSubstr("kernel 'give up' on a stream")));
  EXPECT_EQ(calls, 0);
  stream().host("fails", [] { throw 42; });
  exec.launch(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<NodeFailed>(HasSubstr("'fails' on a stream failed")));
  EXPECT_EQ(calls, 0);
  run(exec);
  EXPECT_EQ(calls, 1);
}

TEST_P(SmallFailureRule, one_failure_is_thrown_and_says_how_many_other_nodes_failed) {
  Graph graph(device(), "hopeless");
  Node last = graph.kernel(give_up, Grid{{4}, {4}}, {.block = kEveryBlock, .wanted = 1, .seen = 0})
                  .named("first");
  for (const char* name : {"second", "third"})
    last =
        graph.kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0}).named(name).after(last);
  Exec exec = graph.instantiate();
  exec.launch(stream());
  exec.launch(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(
                  AllOf(HasSubstr("'first'"), HasSubstr("(2 other nodes failed too)"))));
  EXPECT_NO_THROW(stream().synchronize()) << "the others are told with the first";
}

TEST_P(SmallFailureRule, an_exec_that_fails_on_two_streams_is_reported_by_both) {
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    is_failing_ = true;
    Stream other(device());
    Graph graph(device(), "fragile");
    mistake.add(graph);
    Exec exec = graph.instantiate();
    exec.launch(stream());
    exec.launch(other);
    expect_failed(other, mistake);
    expect_failed(stream(), mistake);
  }
}

TEST_P(SmallFailureRule, a_failure_that_was_thrown_does_not_follow_its_exec_to_another_stream) {
  for (const Mistake& mistake : mistakes()) {
    SCOPED_TRACE(mistake.what);
    is_failing_ = true;
    Stream other(device());
    Graph graph(device(), "fragile");
    const Node culprit = mistake.add(graph);
    Exec exec = graph.instantiate();
    exec.launch(stream());
    expect_failed(stream(), mistake);
    repair(exec, culprit, mistake);
    exec.launch(other);
    EXPECT_NO_THROW(other.synchronize());
  }
}

TEST_P(SmallFailureRule, a_graph_launched_from_the_device_fails_on_the_stream_that_set_it_off) {
  Graph inner(device(), "inner");
  inner.kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0}).named("patient");
  const DeviceExec target = inner.instantiate_for_device();
  const Buffer<int> x = buffer<int>({0});
  std::atomic<int> calls{0};
  Graph plain(device(), "plain");
  const auto call = plain.host("call", [&] { ++calls; });
  plain.kernel(set_value, Grid{}, {.to = x.data(), .value = 1}).after(call);
  Exec bystander = plain.instantiate();
  Stream other(device());
  for (const LaunchMode mode :
       {LaunchMode::tail, LaunchMode::fire_and_forget, LaunchMode::sibling}) {
    calls = 0;
    Graph graph(device(), "outer");
    graph.kernel(launch, Grid{}, {.graph = target.handle(), .mode = mode, .tally = {}});
    Exec exec = graph.instantiate();
    const Event failed(device());
    exec.launch(stream());
    stream().host("later", [&] { calls += 100; });
    stream().record(failed);
    other.wait(failed);
    bystander.launch(other);
    EXPECT_NO_THROW(other.synchronize());
    EXPECT_EQ(calls, 1) << "a host call behind the failure ran";
    EXPECT_THAT([&] { stream().synchronize(); },
                ThrowsMessage<WaitOverdue>(HasSubstr("'patient' of graph 'inner'")));
    EXPECT_NO_THROW(stream().synchronize());
  }
}

TEST_P(SmallFailureRule, of_two_streams_that_launch_from_the_device_the_one_that_failed_is_told) {
  const Buffer<int> x = buffer<int>({0});
  Graph failing(device(), "failing");
  failing.kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0}).named("patient");
  const DeviceExec bad = failing.instantiate_for_device();
  Graph sound(device(), "sound");
  sound.kernel(set_value, Grid{}, {.to = x.data(), .value = 1});
  const DeviceExec good = sound.instantiate_for_device();
  const auto launching = [&](const DeviceExec& target) {
    Graph graph(device(), "outer");
    graph.kernel(launch, Grid{}, {.graph = target.handle(), .mode = LaunchMode::tail, .tally = {}});
    return graph.instantiate();
  };
  Exec first = launching(bad);
  Exec second = launching(good);
  Stream other(device());
  first.launch(stream());
  second.launch(other);
  try {
    other.synchronize();  // CUDA does not tell which of the two launched it
  } catch (const WaitOverdue&) {
    EXPECT_TRUE(is_cuda()) << "the host can tell them apart";
  }
  EXPECT_THROW(stream().synchronize(), WaitOverdue);
  EXPECT_NO_THROW(other.synchronize());
}

TEST_P(SmallFailureRule, what_fails_in_a_library_call_is_named_like_any_node) {
  std::atomic<int> calls{0};
  Graph graph(device(), "linked");
  const auto library = graph.library("solver", [&](StreamRef on) {
    on.kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0});
    on.host("inside", [&] { ++calls; });
  });
  graph.host("behind", [&] { ++calls; }).after(library);
  Exec exec = graph.instantiate();
  exec.launch(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(HasSubstr("kernel 'give up' of graph 'linked'")));
  EXPECT_EQ(calls, 0);
}

TEST_P(SmallFailureRule, a_host_loop_throws_what_fails_in_a_pass) {
  Buffer<unsigned> left = buffer<unsigned>({5});
  const Loop loop(device(), "stumbling", [&](Graph& body, Condition again) {
    const auto call = body.host("culprit", [] { throw std::runtime_error("in a pass"); });
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(call);
  });
  LoopExec exec = loop.instantiate(LoopForm::host_loop);
  EXPECT_THAT([&] { exec.launch(stream()); }, ThrowsMessage<NodeFailed>(HasSubstr("in a pass")));
  EXPECT_EQ(left.read().front(), 4u);
  EXPECT_NO_THROW(stream().synchronize());
}

TEST_P(SmallFailureRule, after_a_body_that_throws_the_rest_of_the_launch_does_not_start) {
  if (is_cuda()) GTEST_SKIP() << "device code does not throw";
  const Buffer<int> ran = buffer<int>({0, 0});
  std::atomic<int> calls{0};
  Graph graph(device(), "fragile");
  const auto bad = graph.kernel(throw_on_host, Grid{}, {.unused = 0}).named("culprit");
  const auto next = graph.kernel(set_value, Grid{}, {.to = ran.data(), .value = 1}).after(bad);
  graph.host("behind", [&] { ++calls; }).after(next);
  Exec exec = graph.instantiate();
  Stream other(device());
  exec.launch(stream());
  stream().kernel(set_value, Grid{}, {.to = ran.data() + 1, .value = 1});
  stream().host("later", [&] { ++calls; });
  other.host("elsewhere", [] {});
  EXPECT_NO_THROW(other.synchronize());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<NodeFailed>(HasSubstr("'culprit' of graph 'fragile' failed")));
  EXPECT_EQ(ran.read(), (std::vector<int>{0, 1}));
  EXPECT_EQ(calls, 0);
  exec.enable(bad, false);
  run(exec);
  EXPECT_EQ(ran.read(), (std::vector<int>{1, 1}));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace attacca::test
