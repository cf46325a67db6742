// Tests of how CUDA calls borrow the calling thread's device, and of limits that are only raised.
// Both use a fake runtime, so one GPU or none is enough.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backend/cuda/current_device.hpp"
#include "backend/cuda/raised_limits.hpp"
#include "support/on_each_device.hpp"
#include "support/raw_cuda.hpp"

namespace attacca::test {
namespace {

struct FakeRuntime {
  static inline int device = 0;
  static inline int selections = 0;
  static inline bool knows = true;
  static int current() noexcept { return knows ? device : -1; }
  static void select(int index) {
    ++selections;
    if (index > 3) throw std::runtime_error("no such device");
    device = index;
  }
  static void select_quietly(int index) noexcept {
    ++selections;
    if (index <= 3) device = index;
  }
};
using Selected = cuda::SelectedDevice<FakeRuntime>;

class CurrentDevice : public testing::Test {
 protected:
  void SetUp() override {
    FakeRuntime::device = 1;
    FakeRuntime::selections = 0;
    FakeRuntime::knows = true;
  }
};

TEST_F(CurrentDevice, is_selected_and_given_back) {
  {
    const Selected outer(2);
    EXPECT_EQ(FakeRuntime::device, 2);
    {
      const Selected inner(0, std::nothrow);
      EXPECT_EQ(FakeRuntime::device, 0);
    }
    EXPECT_EQ(FakeRuntime::device, 2);
  }
  EXPECT_EQ(FakeRuntime::device, 1);
  EXPECT_EQ(FakeRuntime::selections, 4);
}

TEST_F(CurrentDevice, is_only_asked_for_where_it_is_current_already) {
  const Selected same(1);
  const Selected again(1, std::nothrow);
  EXPECT_EQ(FakeRuntime::selections, 0);
}

TEST_F(CurrentDevice, stays_where_another_cannot_be_selected) {
  EXPECT_THROW(Selected(9), std::runtime_error);
  EXPECT_EQ(FakeRuntime::device, 1);
}

TEST_F(CurrentDevice, is_selected_where_the_runtime_cannot_tell_which_it_is) {
  FakeRuntime::knows = false;
  {
    const Selected selected(2);
    EXPECT_EQ(FakeRuntime::device, 2);
  }
  EXPECT_EQ(FakeRuntime::device, 2) << "there is nothing to give back";
}

TEST(RaisedLimits, are_set_when_they_grow_and_never_lowered) {
  cuda::RaisedLimits limits;
  std::vector<std::size_t> calls;
  const auto set = [&](std::size_t value) { calls.push_back(value); };
  const int function = 0;
  const int other = 0;
  for (const std::size_t value : {100, 50, 100, 200, 150}) limits.raise(&function, value, set);
  limits.raise(&other, 60, set);
  EXPECT_EQ(calls, (std::vector<std::size_t>{100, 200, 60}));
}

TEST(RaisedLimits, are_raised_again_where_the_first_try_failed) {
  cuda::RaisedLimits limits;
  const int function = 0;
  EXPECT_THROW(limits.raise(&function, 10, [](std::size_t) { throw std::runtime_error("no"); }),
               std::runtime_error);
  int calls = 0;
  limits.raise(&function, 10, [&](std::size_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(RaisedLimits, one_threads_small_need_leaves_anothers_large_one) {
  cuda::RaisedLimits limits;
  const int function = 0;
  std::atomic<std::size_t> value{0};
  const auto ask = [&](std::size_t wanted) {
    for (int at = 0; at < 1000; ++at) {
      limits.raise(&function, wanted, [&](std::size_t next) { value = next; });
      ASSERT_GE(value, wanted);
    }
  };
  std::thread small(ask, 100);
  std::thread large(ask, 200);
  small.join();
  large.join();
  EXPECT_EQ(value, 200u);
}

TEST(RaisedLimits, of_two_owners_are_apart) {
  const int function = 0;
  int calls = 0;
  for (int at = 0; at < 2; ++at) {
    cuda::RaisedLimits limits;
    limits.raise(&function, 10, [&](std::size_t) { ++calls; });
  }
  EXPECT_EQ(calls, 2);
}

class SmallCallersDevice : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallCallersDevice);

TEST_P(SmallCallersDevice, is_the_same_after_every_call) {
  if (!is_cuda()) GTEST_SKIP() << "the host has no current device";
  // If there are two GPUs, the caller uses the other one.
  const int mine = Device::cuda_count() > 1 ? 1 : 0;
  select_raw_device(mine);
  const auto expect_mine = [&](const char* after) {
    EXPECT_EQ(current_raw_device(), mine) << after;
  };
  {
    Buffer<int> x(device(), std::vector<int>{1, 2});
    expect_mine("a buffer");
    Stream own(device());
    expect_mine("a stream");
    const Event event(device());
    expect_mine("an event");
    own.copy(x.data(), x.data() + 1, sizeof(int));
    own.fill(x.data(), 0, sizeof(int));
    own.host("call", [] {});
    own.record(event);
    stream().wait(event);
    expect_mine("work on a stream");
    Graph graph(device());
    graph.host("call", [] {});
    graph.fill(x.data(), 1, x.bytes());
    Exec exec = graph.instantiate();
    expect_mine("instantiate");
    exec.launch(own);
    expect_mine("launch");
    Pool pool(device());
    pool.free(own, pool.allocate_bytes(own, 100));
    expect_mine("a pool");
    own.synchronize();
    expect_mine("synchronize");
    (void)x.read();
    (void)device().bytes_free();
    expect_mine("reading");
  }
  expect_mine("destructors");
  select_raw_device(0);
}

}  // namespace
}  // namespace attacca::test
