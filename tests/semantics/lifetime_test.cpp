// Tests of owners that are destroyed while their work is in flight: execs, loops, pools, and
// captures of host calls. The address sanitizer checks the host's side, compute-sanitizer the
// device's.
#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>

#include "support/kernels.hpp"
#include "support/log.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

class SmallLifetime : public OnEachDevice {
 protected:
  /// Holds a stream back until it is opened, so that later work is in flight until then.
  class Gate {
   public:
    explicit Gate(StreamRef stream) {
      stream.host("gate", [opened = opened_.get_future().share()] { opened.wait(); });
    }
    ~Gate() { open(); }
    void open() {
      if (!std::exchange(is_open_, true)) opened_.set_value();
    }

   private:
    std::promise<void> opened_;
    bool is_open_ = false;
  };

  AffineArgs adding_one(const Buffer<int>& x) const {
    return {.x = x.data(), .count = x.size(), .factor = 1, .summand = 1};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallLifetime);

TEST_P(SmallLifetime, an_exec_destroyed_in_flight_runs_to_its_end) {
  const Buffer<int> x = buffer(std::vector<int>(100, 0));
  std::atomic<int> calls{0};
  std::optional<Exec> exec;
  {
    Graph graph(device());
    const auto first = graph.kernel(affine, Grid::covering(100), adding_one(x));
    const auto call =
        graph.host("call", [&calls, big = std::vector<int>(1000, 1)] { calls += big[999]; })
            .after(first);
    graph.kernel(give_up, Grid{}, {.block = 9, .wanted = 0, .seen = 0}).after(call);
    exec.emplace(graph.instantiate());
  }
  run(*exec);
  Gate gate(stream());
  exec->launch(stream());
  exec->launch(stream());
  exec.reset();
  gate.open();
  stream().synchronize();
  EXPECT_EQ(x.read(), std::vector<int>(100, 3));
  EXPECT_EQ(calls, 3);
}

TEST_P(SmallLifetime, what_an_exec_destroyed_in_flight_reports_is_heard) {
  std::optional<Exec> exec;
  {
    Graph graph(device(), "gone");
    graph.kernel(give_up, Grid{}, {.block = 0, .wanted = 1, .seen = 0}).named("patient");
    exec.emplace(graph.instantiate());
  }
  EXPECT_THROW(run(*exec), WaitOverdue);
  Gate gate(stream());
  exec->launch(stream());
  exec.reset();
  gate.open();
  EXPECT_THAT([&] { stream().synchronize(); },
              testing::ThrowsMessage<WaitOverdue>(testing::HasSubstr("'patient' of graph 'gone'")));
}

TEST_P(SmallLifetime, an_exec_made_anew_in_flight_leaves_the_launch_alone) {
  const Buffer<int> x = buffer<int>({0});
  std::atomic<int> before{0};
  std::atomic<int> after{0};
  const auto graph_with = [&](std::atomic<int>& calls) {
    Graph graph(device());
    const auto call = graph.host("call", [&calls] { ++calls; });
    graph.kernel(affine, Grid{}, adding_one(x)).after(call);
    return graph;
  };
  const Graph next = graph_with(after);
  Exec exec = graph_with(before).instantiate();
  run(exec);
  run(next);  // makes the driver load all it needs
  Gate gate(stream());
  exec.launch(stream());
  EXPECT_TRUE(exec.update(next).was_reinstantiated) << "a host call is a function";
  exec.launch(stream());
  gate.open();
  stream().synchronize();
  EXPECT_EQ(before, 2);
  EXPECT_EQ(after, 2);
  EXPECT_EQ(x.read().front(), 4);
}

TEST_P(SmallLifetime, a_loop_destroyed_in_flight_runs_to_its_end) {
  const Buffer<int> x = buffer<int>({0});
  Buffer<unsigned> left = buffer<unsigned>({0});
  for (const LoopForm form :
       {LoopForm::while_node, LoopForm::self_relaunch, LoopForm::persistent_kernel}) {
    std::optional<LoopExec> exec;
    {
      Loop loop(device(), "counting", [&](Graph& body, Condition again) {
        const auto step = body.kernel(affine, Grid{}, adding_one(x));
        body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
      });
      exec.emplace(loop.with(affine_and_count_down).instantiate(form));
    }
    left.write(std::vector<unsigned>{1});
    exec->launch(stream());
    stream().synchronize();
    const int first = x.read().front();
    left.write(std::vector<unsigned>{20});
    Gate gate(stream());
    exec->launch(stream());
    exec.reset();
    gate.open();
    stream().synchronize();
    EXPECT_EQ(x.read().front(), first + 20) << loop_form_name(form);
    EXPECT_EQ(left.read().front(), 0u);
  }
}

TEST_P(SmallLifetime, a_loop_keeps_the_program_it_was_given) {
  const Buffer<int> x = buffer<int>({0});
  Buffer<unsigned> left = buffer<unsigned>({4});
  Loop loop(device(), "counting", [&](Graph& body, Condition again) {
    const auto step = body.kernel(affine, Grid{}, adding_one(x));
    body.kernel(count_down, Grid{}, {.again = again, .left = left.data()}).after(step);
  });
  loop.with(make_affine_and_count_down());
  std::optional<LoopExec> exec = loop.instantiate(LoopForm::persistent_kernel);
  exec->launch(stream());
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 4);
  left.write(std::vector<unsigned>{3});
  loop = Loop(device(), "other", [](Graph&, Condition) {});
  Gate gate(stream());
  exec->launch(stream());
  exec.reset();
  gate.open();
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 7);
}

TEST_P(SmallLifetime, a_device_exec_destroyed_before_its_launch_on_the_device_still_runs) {
  Buffer<int> x = buffer<int>({0});
  for (const LaunchMode mode :
       {LaunchMode::tail, LaunchMode::fire_and_forget, LaunchMode::sibling}) {
    x.write(std::vector<int>{0});
    Graph inner(device(), "inner");
    inner.kernel(affine, Grid{}, adding_one(x));
    std::optional<DeviceExec> target = inner.instantiate_for_device();
    Graph outer(device(), "outer");
    outer.kernel(launch, Grid{}, {.graph = target->handle(), .mode = mode, .tally = {}});
    Exec exec = outer.instantiate();
    run(exec);
    Gate gate(stream());
    exec.launch(stream());
    target.reset();
    gate.open();
    stream().synchronize();
    EXPECT_EQ(x.read().front(), 2);
  }
}

TEST_P(SmallLifetime, a_device_exec_destroyed_in_flight_runs_to_its_end) {
  const Buffer<int> x = buffer<int>({0});
  Buffer<unsigned> left = buffer<unsigned>({0});
  const DeviceTally statuses(device());
  std::optional<DeviceExec> exec;
  {
    Graph graph(device());
    const auto step = graph.kernel(affine, Grid{}, adding_one(x));
    graph.kernel(relaunch, Grid{}, {.left = left.data(), .times = 1, .tally = statuses.view()})
        .after(step);
    exec.emplace(graph.instantiate_for_device());
  }
  exec->start(stream());
  stream().synchronize();
  left.write(std::vector<unsigned>{9});
  Gate gate(stream());
  exec->start(stream());
  exec.reset();
  gate.open();
  stream().synchronize();
  EXPECT_EQ(x.read().front(), 11);
}

TEST_P(SmallLifetime, a_pool_destroyed_in_flight_keeps_its_memory_till_then) {
  const Buffer<int> out = buffer<int>({0, 0});
  const auto use = [&](Pool& pool, bool is_freed) {
    int* x = pool.allocate<int>(stream(), 1);
    stream().kernel(set_value, Grid{}, {.to = x, .value = 6});
    stream().copy(out.data() + is_freed, x, sizeof(int));
    if (is_freed) pool.free(stream(), x);
  };
  {
    Pool pool(device());
    use(pool, true);
    use(pool, false);
    stream().synchronize();
  }
  stream().fill(out.data(), 0, out.bytes());
  std::optional<Pool> pool(device());
  pool->free(stream(), pool->allocate_bytes(stream(), 4));  // makes the driver get its memory
  stream().synchronize();
  Gate gate(stream());
  use(*pool, true);
  use(*pool, false);
  pool.reset();
  gate.open();
  stream().synchronize();
  EXPECT_EQ(out.read(), (std::vector<int>{6, 6}));
}

TEST_P(SmallLifetime, memory_of_a_pool_that_is_gone_is_kept_for_other_streams_too) {
  const Buffer<int> out = buffer<int>({0});
  Stream other(device());
  std::optional<Pool> pool(device());
  int* x = pool->allocate<int>(stream(), 1);
  stream().kernel(set_value, Grid{}, {.to = x, .value = 5});
  stream().synchronize();
  other.copy(out.data(), x, sizeof(int));
  other.synchronize();
  {
    Gate gate(other);
    other.copy(out.data(), x, sizeof(int));
    pool.reset();
    stream().synchronize();
  }
  other.synchronize();
  EXPECT_EQ(out.read().front(), 5);
}

/// Its destructor records the thread, and uses the device.
struct Captured {
  Captured(Device on, std::atomic<int>& count, std::thread::id& where)
      : device(std::move(on)), destroyed(count), thread(where) {}
  ~Captured() {
    const Buffer<int> scratch(device, std::vector<int>{1, 2});
    thread = std::this_thread::get_id();
    ++destroyed;
  }
  Device device;
  std::atomic<int>& destroyed;
  std::thread::id& thread;
};

TEST_P(SmallLifetime, what_a_host_call_of_a_stream_captured_is_gone_after_synchronize) {
  std::atomic<int> destroyed{0};
  std::thread::id thread_of_call;
  std::thread::id thread_of_end;
  stream().host("call",
                [&, captured = std::make_shared<Captured>(device(), destroyed, thread_of_end)] {
                  thread_of_call = std::this_thread::get_id();
                });
  stream().synchronize();
  EXPECT_EQ(destroyed, 1);
  if (is_cuda()) {
    EXPECT_NE(thread_of_end, thread_of_call) << "a driver's thread may not call CUDA";
  }
}

TEST_P(SmallLifetime, what_a_host_call_of_a_graph_captured_goes_with_the_last_launch) {
  std::atomic<int> destroyed{0};
  std::thread::id thread_of_call;
  std::thread::id thread_of_end;
  std::optional<Exec> exec;
  {
    Graph graph(device());
    graph.host("call",
               [&, captured = std::make_shared<Captured>(device(), destroyed, thread_of_end)] {
                 thread_of_call = std::this_thread::get_id();
               });
    exec.emplace(graph.instantiate());
  }
  Gate gate(stream());
  exec->launch(stream());
  exec.reset();
  EXPECT_EQ(destroyed, 0) << "a launch in flight needs it";
  gate.open();
  stream().synchronize();
  EXPECT_EQ(destroyed, 1);
  if (is_cuda()) {
    EXPECT_NE(thread_of_end, thread_of_call) << "a driver's thread may not call CUDA";
  }
}

TEST_P(SmallLifetime, what_many_host_calls_captured_goes_though_nobody_synchronizes) {
  constexpr int kCalls = 100;
  std::atomic<int> destroyed{0};
  std::thread::id thread_of_end;
  for (int at = 0; at < kCalls; ++at) {
    const auto done = std::make_shared<std::promise<void>>();
    stream().host("call", [done, captured = std::make_shared<Captured>(
                                     device(), destroyed, thread_of_end)] { done->set_value(); });
    done->get_future().wait();
  }
  EXPECT_GE(destroyed, kCalls - 2);
  stream().synchronize();
  EXPECT_EQ(destroyed, kCalls);
}

TEST_P(SmallLifetime, a_stream_destroyed_with_calls_in_flight_lets_go_of_them) {
  std::atomic<int> destroyed{0};
  std::thread::id thread_of_end;
  {
    Stream brief(device());
    for (int at = 0; at < 3; ++at)
      brief.host("call",
                 [captured = std::make_shared<Captured>(device(), destroyed, thread_of_end)] {});
  }
  EXPECT_EQ(destroyed, 3);
}

}  // namespace
}  // namespace attacca::test
