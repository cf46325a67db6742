// Tests of Ring under relacy: items come out as they went in, in order, and no place is written
// while it is read.
#include "relacy/relacy_memory.hpp"

namespace attacca::test {
namespace {

/// A ring, and where a test begins with it.
template <Flaw kFlaw, std::uint64_t kCapacity>
struct RingOfInts {
  using Memory = RelacyMemory<kFlaw>;
  using Control = device::RingControl<Memory>;

  void reset() {
    control->written.store(0, device::relaxed);
    control->read.store(0, device::relaxed);
    control->is_closed.store(0, device::relaxed);
  }
  device::RingRef<int, Memory> ref() { return {control.get(), items, kCapacity - 1}; }

  std::unique_ptr<Control> control = std::make_unique<Control>();
  typename Memory::template Plain<int> items[kCapacity];
};

/// A writer sends 1 … kCount, `kWrite` at a time, and closes; a reader takes `kRead` at a time.
template <Flaw kFlaw, std::uint64_t kCapacity, std::uint32_t kWrite, std::uint32_t kRead>
struct Sent : rl::test_suite<Sent<kFlaw, kCapacity, kWrite, kRead>, 2>,
              RingOfInts<kFlaw, kCapacity> {
  static constexpr int kCount = 5;
  using Memory = RelacyMemory<kFlaw>;

  void before() { this->reset(); }

  void thread(unsigned index) { index == 0 ? write() : read(); }
  void write() {
    device::RingWriter<int, Memory> writer(this->ref());
    typename Memory::Backoff backoff;
    for (int sent = 0; sent < kCount;) {
      int next[kWrite];
      for (std::uint32_t at = 0; at < kWrite; ++at) next[at] = sent + 1 + static_cast<int>(at);
      const auto left = static_cast<std::uint32_t>(kCount - sent);
      const std::uint32_t most = left < kWrite ? left : kWrite;
      const std::uint32_t done = most == 1 ? writer.try_push(next[0]) : writer.try_push(next, most);
      RL_ASSERT(done <= most);
      sent += static_cast<int>(done);
      if (done == 0) backoff.pause();
    }
    writer.close();
  }
  void read() {
    device::RingReader<int, Memory> reader(this->ref());
    typename Memory::Backoff backoff;
    int last = 0;
    // Nothing may come after the ring is finished.
    while (!reader.is_finished()) {
      int items_read[kRead] = {};
      const std::uint32_t count = reader.try_pop(items_read, kRead);
      for (std::uint32_t at = 0; at < count; ++at) RL_ASSERT(items_read[at] == ++last);
      if (count == 0) backoff.pause();
    }
    RL_ASSERT(last == kCount);
  }
};

/// A reader passes items over and tells of two at a time, as a kernel may that has no time to.
template <Flaw kFlaw>
struct ToldLater : rl::test_suite<ToldLater<kFlaw>, 2>, RingOfInts<kFlaw, 2> {
  static constexpr int kCount = 4;
  using Memory = RelacyMemory<kFlaw>;

  void before() { this->reset(); }

  void thread(unsigned index) { index == 0 ? write() : read(); }
  void write() {
    device::RingWriter<int, Memory> writer(this->ref());
    typename Memory::Backoff backoff;
    for (int sent = 0; sent < kCount;)
      if (writer.try_push(sent + 1))
        ++sent;
      else
        backoff.pause();
  }
  void read() {
    device::RingReader<int, Memory> reader(this->ref());
    typename Memory::Backoff backoff;
    for (int last = 0; last < kCount;) {
      if (reader.available(1) == 0) {
        backoff.pause();
        continue;
      }
      RL_ASSERT(reader.slot().read() == ++last);
      reader.take();
      if (last % 2 == 0) reader.tell();
    }
  }
};

TEST(RelacyRing, no_place_is_written_before_the_reader_tells) {
  EXPECT_TRUE((holds_at_random<ToldLater<Flaw::none>>(50'000)));
  EXPECT_TRUE((holds_for_all<ToldLater<Flaw::none>>(2)));
  EXPECT_TRUE((is_caught<ToldLater<Flaw::no_release>>()));
  EXPECT_TRUE((is_caught<ToldLater<Flaw::no_acquire>>()));
}

/// As the resident loop uses a ring: two threads put their items, meet at a barrier, and the first
/// one publishes both and keeps the place for the next round, whose writers are made of it.
template <Flaw kFlaw>
struct PutTogether : rl::test_suite<PutTogether<kFlaw>, 3>, RingOfInts<kFlaw, 2> {
  static constexpr std::uint64_t kRounds = 2;
  using Memory = RelacyMemory<kFlaw>;
  typename Memory::template Atomic<std::uint64_t, device::Scope::block> arrived, begun;
  typename Memory::template Plain<device::RingPlace> place;

  void before() {
    this->reset();
    arrived.store(0, device::relaxed);
    begun.store(0, device::relaxed);
    place.write({});
  }
  void wait_for(typename Memory::template Atomic<std::uint64_t, device::Scope::block>& word,
                std::uint64_t value) {
    typename Memory::Backoff backoff;
    while (word.load(device::acquire) < value) backoff.pause();
  }

  void thread(unsigned index) {
    if (index == 0)
      lead();
    else if (index == 1)
      help();
    else
      read();
  }
  void lead() {
    typename Memory::Backoff backoff;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      device::RingWriter<int, Memory> writer(this->ref(), place.read());
      while (writer.room(2) < 2) backoff.pause();
      place.write(writer.place());
      begun.store(round + 1, device::release);
      writer.put(0, static_cast<int>(2 * round + 1));
      wait_for(arrived, round + 1);
      writer.publish(2);
      place.write(writer.place());
    }
  }
  void help() {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      wait_for(begun, round + 1);
      device::RingWriter<int, Memory> writer(this->ref(), place.read());
      writer.put(1, static_cast<int>(2 * round + 2));
      arrived.store(round + 1, device::release);
    }
  }
  void read() {
    device::RingReader<int, Memory> reader(this->ref());
    typename Memory::Backoff backoff;
    for (int last = 0; last < static_cast<int>(2 * kRounds);) {
      int item = 0;
      if (reader.try_pop(item))
        RL_ASSERT(item == ++last);
      else
        backoff.pause();
    }
  }
};

TEST(RelacyRing, threads_that_put_together_publish_all_or_nothing) {
  EXPECT_TRUE((holds_at_random<PutTogether<Flaw::none>>(50'000)));
  EXPECT_TRUE((holds_for_all<PutTogether<Flaw::none>>(1)));
  EXPECT_TRUE((is_caught<PutTogether<Flaw::no_release>>()));
  EXPECT_TRUE((is_caught<PutTogether<Flaw::no_acquire>>()));
}

TEST(RelacyRing, items_arrive_in_order_one_at_a_time) {
  EXPECT_TRUE((holds_at_random<Sent<Flaw::none, 1, 1, 1>>(50'000)));
  EXPECT_TRUE((holds_at_random<Sent<Flaw::none, 2, 1, 1>>(50'000)));
  EXPECT_TRUE((holds_for_all<Sent<Flaw::none, 1, 1, 1>>(2)));
  EXPECT_TRUE((holds_for_all<Sent<Flaw::none, 2, 1, 1>>(2)));
  EXPECT_TRUE((is_caught<Sent<Flaw::no_release, 2, 1, 1>>()));
  EXPECT_TRUE((is_caught<Sent<Flaw::no_acquire, 2, 1, 1>>()));
}

TEST(RelacyRing, items_arrive_in_order_in_batches) {
  EXPECT_TRUE((holds_at_random<Sent<Flaw::none, 2, 3, 2>>(50'000)));
  EXPECT_TRUE((holds_at_random<Sent<Flaw::none, 4, 2, 3>>(50'000)));
  EXPECT_TRUE((holds_for_all<Sent<Flaw::none, 2, 3, 2>>(2)));
  EXPECT_TRUE((is_caught<Sent<Flaw::no_release, 2, 3, 2>>()));
  EXPECT_TRUE((is_caught<Sent<Flaw::no_acquire, 4, 2, 3>>()));
}

}  // namespace
}  // namespace attacca::test
