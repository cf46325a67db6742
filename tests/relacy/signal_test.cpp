// Tests of Signal under relacy: writes before publishing are seen after waiting.
#include "relacy/relacy_memory.hpp"

namespace attacca::test {
namespace {

using device::Patience;

/// One thread writes and publishes twice; the others wait for either and read.
template <Flaw kFlaw>
struct Published : rl::test_suite<Published<kFlaw>, 3> {
  using Memory = RelacyMemory<kFlaw>;
  device::Signal<Scope::gpu, Memory> signal;
  typename Memory::template Plain<int> first, second;

  void before() { signal.publish(0); }
  void thread(unsigned index) {
    if (index == 0) {
      first.write(11);
      signal.publish(1);
      second.write(22);
      signal.publish(2);
    } else if (index == 1) {
      RL_ASSERT(signal.wait(1, Patience{}));
      RL_ASSERT(first.read() == 11);
    } else {
      RL_ASSERT(signal.wait(2, Patience{}));
      RL_ASSERT(signal.is_at(1));
      RL_ASSERT(first.read() + second.read() == 33);
    }
  }
};

/// One fence publishes two signals; a thread waits for each.
template <Flaw kFlaw>
struct PublishedTogether : rl::test_suite<PublishedTogether<kFlaw>, 3> {
  using Memory = RelacyMemory<kFlaw>;
  using Signal = device::Signal<Scope::gpu, Memory>;
  Signal signals[2];
  typename Memory::template Plain<int> value;

  void before() {
    for (Signal& signal : signals) signal.publish(0);
  }
  void thread(unsigned index) {
    if (index == 2) {
      value.write(7);
      Signal::publish_all(1, signals[0], signals[1]);
    } else {
      RL_ASSERT(signals[index].wait(1, Patience{}));
      RL_ASSERT(value.read() == 7);
    }
  }
};

/// Two threads raise; the third sees the writes of both.
template <Flaw kFlaw>
struct Raised : rl::test_suite<Raised<kFlaw>, 3> {
  using Memory = RelacyMemory<kFlaw>;
  device::Signal<Scope::gpu, Memory> signal;
  typename Memory::template Plain<int> values[2];

  void before() { signal.publish(0); }
  void thread(unsigned index) {
    if (index < 2) {
      values[index].write(5);
      signal.raise();
    } else {
      RL_ASSERT(signal.wait(2, Patience{}));
      RL_ASSERT(values[0].read() + values[1].read() == 10);
    }
  }
};

TEST(RelacySignal, waiting_sees_what_was_published) {
  EXPECT_TRUE(holds_at_random<Published<Flaw::none>>(30'000));
  EXPECT_TRUE(holds_for_all<Published<Flaw::none>>());
  EXPECT_TRUE(is_caught<Published<Flaw::no_release>>());
  EXPECT_TRUE(is_caught<Published<Flaw::no_acquire>>());
}

TEST(RelacySignal, one_fence_publishes_several) {
  EXPECT_TRUE(holds_at_random<PublishedTogether<Flaw::none>>(30'000));
  EXPECT_TRUE(holds_for_all<PublishedTogether<Flaw::none>>());
  EXPECT_TRUE(is_caught<PublishedTogether<Flaw::no_release>>());
  EXPECT_TRUE(is_caught<PublishedTogether<Flaw::no_fence>>());
}

TEST(RelacySignal, several_raise_one_signal) {
  EXPECT_TRUE(holds_at_random<Raised<Flaw::none>>(30'000));
  EXPECT_TRUE(holds_for_all<Raised<Flaw::none>>());
  EXPECT_TRUE(is_caught<Raised<Flaw::weak_add>>());
  EXPECT_TRUE(is_caught<Raised<Flaw::torn_add>>());
}

}  // namespace
}  // namespace attacca::test
