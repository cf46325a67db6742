// Tests of WorkQueue under relacy: no item is lost or doubled, one producer's items reach one
// consumer in order, the end is seen when it has come and not before, and a broken queue releases
// all waiters.
#include "relacy/relacy_memory.hpp"

namespace attacca::test {
namespace {

using device::Pop;
using device::Push;
using device::QueueEnd;
using device::relaxed;

/// A queue of 2^kLog2 places with the rings of `kInboxes` producers, two places each.
template <Flaw kFlaw, std::uint32_t kLog2, std::uint32_t kInboxes = 0, bool kLooks = false>
struct Queue {
  using Memory = RelacyMemory<kFlaw, kLooks>;
  using Ref = device::WorkQueueRef<int, Memory>;
  using Control = typename Ref::Control;
  using HostWords = typename Ref::HostWords;
  using RingControl = device::RingControl<Memory>;
  using Reader = device::RingReader<int, Memory>;
  static constexpr std::uint32_t kPlaces = 1u << kLog2;

  std::unique_ptr<Control> control = std::make_unique<Control>();
  std::unique_ptr<HostWords> host = std::make_unique<HostWords>();
  std::uint64_t patience = 0;  // in reads of the clock
  typename Memory::template Atomic<std::uint32_t, Scope::gpu> turns[kPlaces];
  typename Memory::template Plain<int> items[kPlaces];
  std::unique_ptr<RingControl> rings[kInboxes + 1];
  typename Memory::template Plain<int> ring_items[kInboxes + 1][2];
  typename Ref::Inbox inboxes[kInboxes + 1];

  void reset(std::uint64_t alive) {
    control->room.store(kPlaces, relaxed);
    control->tail.store(0, relaxed);
    control->ready.store(0, relaxed);
    control->head.store(0, relaxed);
    control->alive.store(alive + kInboxes * Ref::kProducer, relaxed);
    control->is_fetching.store(0, relaxed);
    control->end.store(0, relaxed);
    control->looked.store(0, relaxed);
    control->withdrawn.store(0, relaxed);
    control->refused.store(0, relaxed);
    host->is_cancelled.store(0, relaxed);
    host->end.store(0, relaxed);
    Memory::clock = 1;
    for (auto& turn : turns) turn.store(0, relaxed);
    for (std::uint32_t at = 0; at < kInboxes; ++at) {
      rings[at] = std::make_unique<RingControl>();
      rings[at]->written.store(0, relaxed);
      rings[at]->read.store(0, relaxed);
      rings[at]->is_closed.store(0, relaxed);
      inboxes[at].reader.write(Reader(ring(at)));
      inboxes[at].is_retired.write(false);
    }
  }
  Ref ref() {
    return Ref(
        {control.get(), host.get(), turns, items, kInboxes ? inboxes : nullptr, kLog2, kInboxes},
        {.nanoseconds = patience});
  }
  device::RingRef<int, Memory> ring(std::uint32_t at) {
    return {rings[at].get(), ring_items[at], 1};
  }
};

/// How often each item was popped. Not atomic, because relacy's threads never run at the same time.
template <unsigned kItems>
struct Tally {
  unsigned counts[kItems] = {};
  void add(int item) {
    RL_ASSERT(item >= 0 && item < static_cast<int>(kItems));
    ++counts[item];
  }
  void expect_one_each() const {
    for (const unsigned count : counts) RL_ASSERT(count == 1);
  }
};

/// Some threads push two items each; the others pop until the end.
template <Flaw kFlaw, std::uint32_t kLog2, unsigned kProducers, unsigned kConsumers>
struct Passed
    : rl::test_suite<Passed<kFlaw, kLog2, kProducers, kConsumers>, kProducers + kConsumers> {
  Queue<kFlaw, kLog2> queue;
  Tally<2 * kProducers> tally;

  // Each producer counts as an item until it is done.
  void before() { queue.reset(kProducers); }
  void thread(unsigned index) { index < kProducers ? produce(static_cast<int>(index)) : consume(); }
  void produce(int index) {
    for (int at = 0; at < 2; ++at) RL_ASSERT(queue.ref().push(2 * index + at) == Push::done);
    queue.ref().done();
  }
  void consume() {
    bool has_seen[kProducers] = {};  // the second item of each producer
    for (;;) {
      int item = 0;
      const Pop result = queue.ref().pop(item);
      if (result == Pop::finished) return;
      RL_ASSERT(result == Pop::done);
      tally.add(item);
      RL_ASSERT(item % 2 == 1 || !has_seen[item / 2]);
      has_seen[item / 2] |= item % 2 == 1;
      queue.ref().done();
    }
  }
  void after() { tally.expect_one_each(); }
};

/// The same without waiting, and in batches. A thread moves the items that it claims itself.
template <Flaw kFlaw>
struct PassedInBatches : rl::test_suite<PassedInBatches<kFlaw>, 3> {
  Queue<kFlaw, 1> queue;
  Tally<4> tally;

  void before() { queue.reset(1); }
  void thread(unsigned index) { index == 0 ? produce() : consume(); }
  void produce() {
    const auto ref = queue.ref();
    typename Queue<kFlaw, 1>::Memory::Backoff backoff;
    for (int sent = 0; sent < 4;) {
      const auto claim = ref.claim_room(3);
      for (std::uint32_t at = 0; at < claim.count; ++at) {
        if (sent == 4) {  // a claimed place must be used
          RL_ASSERT(ref.put(claim.first + at, -1));
          continue;
        }
        RL_ASSERT(ref.put(claim.first + at, sent++));
      }
      if (claim.count == 0) backoff.pause();
    }
    ref.done();
  }
  void consume() {
    const auto ref = queue.ref();
    typename Queue<kFlaw, 1>::Memory::Backoff backoff;
    for (;;) {
      const auto claim = ref.claim_items(2);
      for (std::uint32_t at = 0; at < claim.count; ++at) {
        int item = 0;
        RL_ASSERT(ref.take(claim.first + at, item));
        if (item >= 0) tally.add(item);
      }
      if (claim.count) ref.done(claim.count);
      if (claim.count == 0 && ref.why_none() == Pop::finished) return;
      if (claim.count == 0) backoff.pause();
    }
  }
  void after() { tally.expect_one_each(); }
};

/// Two workers share a tree: item n pushes 2n+1 and 2n+2 if they are below `kNodes`. A thread that
/// sees the end also sees the writes of all nodes.
template <Flaw kFlaw, std::uint32_t kLog2>
struct Grown : rl::test_suite<Grown<kFlaw, kLog2>, 2> {
  static constexpr int kNodes = 5;
  Queue<kFlaw, kLog2> queue;
  typename Queue<kFlaw, kLog2>::Memory::template Plain<int> results[kNodes];
  Tally<kNodes> tally;

  void before() {
    queue.reset(0);
    RL_ASSERT(queue.ref().try_push(0) == Push::done);
  }
  void thread(unsigned) {
    for (;;) {
      int item = 0;
      const Pop result = queue.ref().pop(item);
      if (result == Pop::finished) break;
      RL_ASSERT(result == Pop::done);
      work(item);
      queue.ref().done();
    }
    for (int node = 0; node < kNodes; ++node) RL_ASSERT(results[node].read() == node);
  }
  void work(int item) {
    tally.add(item);
    results[item].write(item);
    for (int child = 2 * item + 1; child <= 2 * item + 2 && child < kNodes; ++child)
      if (queue.ref().try_push(child) == Push::full) work(child);
  }
  void after() { tally.expect_one_each(); }
};

/// A host producer sends through its ring and closes; consumers empty it.
template <Flaw kFlaw, std::uint32_t kLog2, unsigned kConsumers>
struct SentIn : rl::test_suite<SentIn<kFlaw, kLog2, kConsumers>, 1 + kConsumers> {
  static constexpr int kItems = 3;
  Queue<kFlaw, kLog2, 1> queue;
  Tally<kItems> tally;

  void before() { queue.reset(0); }
  void thread(unsigned index) { index == 0 ? produce() : consume(); }
  void produce() {
    using Memory = typename Queue<kFlaw, kLog2, 1>::Memory;
    device::RingWriter<int, Memory> writer(queue.ring(0));
    typename Memory::Backoff backoff;
    for (int at = 0; at < kItems; ++at)
      while (!writer.try_push(at)) backoff.pause();
    writer.close();
  }
  void consume() {
    int last = -1;
    for (;;) {
      int item = 0;
      const Pop result = queue.ref().pop(item);
      if (result == Pop::finished) return;
      RL_ASSERT(result == Pop::done);
      RL_ASSERT(item > last);
      tally.add(last = item);
      queue.ref().done();
    }
  }
  void after() { tally.expect_one_each(); }
};

/// One thread cancels the queue, on the device or as the host does. Another waits for room in it,
/// and a third, at first, for items.
template <bool kByHost>
struct Cancelled : rl::test_suite<Cancelled<kByHost>, 3> {
  Queue<Flaw::none, 0, 0, kByHost> queue;
  void before() { queue.reset(1); }
  void thread(unsigned index) {
    if (index == 0) {
      if (kByHost)
        queue.host->is_cancelled.store(1, device::release);
      else
        queue.ref().cancel();
    } else if (index == 1) {
      while (queue.ref().push(1) == Push::done) {
      }
    } else {
      int item = 0;
      const Pop result = queue.ref().pop(item);
      RL_ASSERT(result == Pop::done || result == Pop::broken);
    }
  }
  void after() {
    int item = 0;
    RL_ASSERT(queue.ref().is_cancelled());
    RL_ASSERT(queue.ref().end() == QueueEnd::cancelled);
    RL_ASSERT(queue.host->end.load(relaxed) == static_cast<std::uint32_t>(QueueEnd::cancelled));
    RL_ASSERT(queue.ref().try_push(1) == Push::broken);
    RL_ASSERT(queue.ref().push(1) == Push::broken);
    RL_ASSERT(queue.ref().try_pop(item) == Pop::broken);
    RL_ASSERT(queue.ref().pop(item) == Pop::broken);
  }
};

/// Patience is so short that it may end in any wait. Either way accepted items are done or still
/// counted, and items whose push returned `broken` are not.
template <std::uint32_t kLog2, unsigned kSides>
struct Impatient : rl::test_suite<Impatient<kLog2, kSides>, 2 * kSides> {
  Queue<Flaw::none, kLog2, 0, true> queue;
  unsigned accepted = 0;
  unsigned done = 0;
  void before() {
    queue.patience = 2;
    queue.reset(kSides);  // each producer counts as an item until it is done
    accepted = done = 0;
  }
  void thread(unsigned index) { index < kSides ? produce() : consume(); }
  void produce() {
    for (int at = 0; at < 2; ++at) accepted += queue.ref().push(at) == Push::done;
    queue.ref().done();
  }
  void consume() {
    for (;;) {
      int item = 0;
      const Pop result = queue.ref().pop(item);
      if (result == Pop::empty) continue;
      if (result != Pop::done) return;
      ++done;
      queue.ref().done();
    }
  }
  void after() {
    const std::uint64_t tail = queue.control->tail.load(relaxed);
    RL_ASSERT(tail - queue.control->withdrawn.load(relaxed) == accepted);
    RL_ASSERT(queue.control->alive.load(relaxed) == accepted - done);
    RL_ASSERT(queue.ref().is_broken() || (accepted == 2 * kSides && done == accepted));
  }
};

/// A consumer without any patience waits for a slow producer. That is no fault.
struct Idle : rl::test_suite<Idle, 2> {
  Queue<Flaw::none, 0, 0, true> queue;
  void before() {
    queue.patience = 1;
    queue.reset(1);
  }
  void thread(unsigned index) {
    int item = 0;
    if (index == 0) {
      for (int turn = 0; turn < 4; ++turn) rl::yield(1, RL_INFO);
      queue.ref().done();
    } else {
      RL_ASSERT(queue.ref().pop(item) == Pop::finished);
    }
  }
};

TEST(RelacyWorkQueue, nothing_is_lost_doubled_or_out_of_order) {
  EXPECT_TRUE((holds_at_random<Passed<Flaw::none, 0, 2, 1>>(100'000)));
  EXPECT_TRUE((holds_at_random<Passed<Flaw::none, 0, 2, 2>>(100'000)));
  EXPECT_TRUE((holds_at_random<Passed<Flaw::none, 1, 2, 2>>(100'000)));
  EXPECT_TRUE((holds_for_all<Passed<Flaw::none, 0, 1, 1>>(3)));
  EXPECT_TRUE((holds_for_all<Passed<Flaw::none, 1, 1, 1>>(3)));
  EXPECT_TRUE((is_caught<Passed<Flaw::no_release, 0, 2, 2>>()));
  EXPECT_TRUE((is_caught<Passed<Flaw::no_acquire, 0, 2, 2>>()));
  EXPECT_TRUE((is_caught<Passed<Flaw::torn_add, 1, 2, 2>>()));
}

TEST(RelacyWorkQueue, batches_lose_and_double_nothing) {
  EXPECT_TRUE(holds_at_random<PassedInBatches<Flaw::none>>(100'000));
  EXPECT_TRUE(is_caught<PassedInBatches<Flaw::no_release>>());
  EXPECT_TRUE(is_caught<PassedInBatches<Flaw::torn_add>>());
}

TEST(RelacyWorkQueue, workers_that_push_find_the_end) {
  EXPECT_TRUE((holds_at_random<Grown<Flaw::none, 0>>(100'000)));
  EXPECT_TRUE((holds_at_random<Grown<Flaw::none, 1>>(100'000)));
  EXPECT_TRUE((holds_for_all<Grown<Flaw::none, 1>>(2)));
  EXPECT_TRUE((is_caught<Grown<Flaw::weak_add, 1>>()));
  EXPECT_TRUE((is_caught<Grown<Flaw::no_acquire, 1>>()));
  EXPECT_TRUE((is_caught<Grown<Flaw::torn_add, 1>>()));
}

TEST(RelacyWorkQueue, a_host_producer_s_items_come_in_order_and_end) {
  EXPECT_TRUE((holds_at_random<SentIn<Flaw::none, 0, 2>>(100'000)));
  EXPECT_TRUE((holds_at_random<SentIn<Flaw::none, 1, 2>>(100'000)));
  EXPECT_TRUE((holds_for_all<SentIn<Flaw::none, 0, 1>>(2)));
  EXPECT_TRUE((holds_for_all<SentIn<Flaw::none, 1, 1>>(2)));
  EXPECT_TRUE((is_caught<SentIn<Flaw::no_release, 0, 2>>()));
  EXPECT_TRUE((is_caught<SentIn<Flaw::no_acquire, 0, 2>>()));
}

TEST(RelacyWorkQueue, a_cancelled_queue_lets_everybody_go) {
  EXPECT_TRUE(holds_at_random<Cancelled<false>>(100'000));
  EXPECT_TRUE(holds_for_all<Cancelled<false>>(2));
  EXPECT_TRUE(holds_at_random<Cancelled<true>>(100'000));
  EXPECT_TRUE(holds_for_all<Cancelled<true>>(2));
}

TEST(RelacyWorkQueue, where_patience_ends_everything_accepted_is_done_or_counted) {
  EXPECT_TRUE((holds_at_random<Impatient<0, 2>>(100'000)));
  EXPECT_TRUE((holds_at_random<Impatient<1, 2>>(100'000)));
  EXPECT_TRUE((holds_for_all<Impatient<0, 1>>(1)));
}

TEST(RelacyWorkQueue, waiting_for_work_is_no_fault) {
  EXPECT_TRUE(holds_at_random<Idle>(30'000));
  EXPECT_TRUE(holds_for_all<Idle>(3));
}

}  // namespace
}  // namespace attacca::test
