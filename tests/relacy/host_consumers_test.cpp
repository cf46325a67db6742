// HostConsumers under relacy: what the server hands out comes once and in order, and who sees the
// end sees what the host did.
#include <attacca/device/host_consumers.hpp>

#include "relacy/relacy_memory.hpp"

namespace attacca::test {
namespace {

using device::Patience;
using device::Pop;
using device::relaxed;

/// A queue with all items in it, one thread that serves, one of the host that may hold two.
template <Flaw kFlaw>
struct HandedOut : rl::test_suite<HandedOut<kFlaw>, 2> {
  static constexpr int kItems = 3;
  using Memory = RelacyMemory<kFlaw>;
  using Queue = device::WorkQueueRef<int, Memory>;
  using Server = device::HostConsumersRef<int, Memory>;
  using RingControl = device::RingControl<Memory>;

  std::unique_ptr<device::WorkQueueControl<Memory>> control =
      std::make_unique<device::WorkQueueControl<Memory>>();
  typename Memory::template Atomic<std::uint32_t, Scope::gpu> turns[4];
  typename Memory::template Plain<int> items[4];
  std::unique_ptr<RingControl> ring_control = std::make_unique<RingControl>();
  typename Memory::template Plain<int> ring_items[2];
  std::unique_ptr<device::HostConsumerControl<Memory>> consumer =
      std::make_unique<device::HostConsumerControl<Memory>>();
  typename Server::Outbox outbox;
  typename Memory::template Plain<int> results[kItems];

  device::RingRef<int, Memory> ring() { return {ring_control.get(), ring_items, 1}; }
  void before() {
    control->room.store(4 - kItems, relaxed);
    control->tail.store(kItems, relaxed);
    control->ready.store(kItems, relaxed);
    control->head.store(0, relaxed);
    control->alive.store(kItems, relaxed);
    control->is_fetching.store(0, relaxed);
    control->is_broken.store(0, relaxed);
    for (int at = 0; at < 4; ++at) turns[at].store(at < kItems, relaxed);
    for (int at = 0; at < kItems; ++at) items[at].write(at);
    for (auto& result : results) result.write(-1);
    ring_control->written.store(0, relaxed);
    ring_control->read.store(0, relaxed);
    ring_control->is_closed.store(0, relaxed);
    consumer->done.store(0, relaxed);
    consumer->has_given_up.store(0, relaxed);
    consumer->outlook.store(static_cast<std::uint32_t>(Pop::empty), relaxed);
    outbox.control = consumer.get();
    outbox.writer.write(device::RingWriter<int, Memory>(ring()));
    outbox.sent.write(0);
    outbox.seen_done.write(0);
  }
  void thread(unsigned index) { index == 0 ? serve() : consume(); }
  void serve() {
    const Queue queue(control.get(), turns, items, 2, nullptr, 0, Patience{});
    RL_ASSERT(Server(queue, &outbox, 1, 2, Patience{}).serve() == Pop::finished);
    for (int at = 0; at < kItems; ++at) RL_ASSERT(results[at].read() == 10 * at);
  }
  void consume() {
    device::HostConsumer<int, Memory> host(ring(), consumer.get(), Patience{});
    for (int at = 0; at < kItems; ++at) {
      int item = -1;
      RL_ASSERT(host.pop(item) == Pop::done);
      RL_ASSERT(item == at);
      results[at].write(10 * item);
      host.done();
    }
    int item = -1;
    RL_ASSERT(host.pop(item) == Pop::finished);
  }
};

TEST(RelacyHostConsumers, items_come_once_in_order_and_the_end_after_the_host_s_work) {
  EXPECT_TRUE(holds_at_random<HandedOut<Flaw::none>>(100'000));
  EXPECT_TRUE(holds_for_all<HandedOut<Flaw::none>>(2));
  EXPECT_TRUE(is_caught<HandedOut<Flaw::no_release>>());
  EXPECT_TRUE(is_caught<HandedOut<Flaw::no_acquire>>());
}

}  // namespace
}  // namespace attacca::test
