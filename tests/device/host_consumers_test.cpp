// Tests of HostConsumers: items are handed out once, no more than a host thread may hold, and none
// is finished before the host says so. On the CPU, where each side is a thread, and beside kernels.
#include <gmock/gmock.h>
#include <attacca/device/host_consumers.hpp>
#include <attacca/error.hpp>

#include "support/on_each_device.hpp"
#include "support/queues.hpp"

namespace attacca::test {
namespace {

using attacca::device::HostConsumersOptions;
using attacca::device::Pop;
using attacca::device::RingWriter;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Consumer = device::HostConsumer<std::uint32_t>;
using Hosts = device::HostConsumers<std::uint32_t>;

HostConsumersOptions of(std::size_t consumers, std::size_t outbox) {
  return {.consumers = consumers, .outbox = outbox, .patience = std::chrono::seconds(20)};
}

/// Pops until the end and counts what came.
void consume(Consumer& consumer, std::vector<unsigned>& counts) {
  for (;;) {
    std::uint32_t item = 0;
    const Pop result = consumer.pop(item);
    if (result == Pop::finished) return;
    ASSERT_EQ(result, Pop::done);
    ASSERT_LT(item, counts.size());
    ++counts[item];
    consumer.done();
  }
}

// --- one thread ---------------------------------------------------------------------------------

TEST(HostConsumers, hold_no_more_items_than_they_may) {
  Queue queue(Device::host_serial(), options(8));
  Hosts hosts(Device::host_serial(), of(1, 2));
  Consumer consumer = hosts.consumer();
  const auto server = hosts.ref(queue.ref());
  queue.fill(numbers(5));
  std::uint32_t item = 0;
  EXPECT_EQ(consumer.try_pop(item), Pop::empty) << "nobody serves yet";
  EXPECT_TRUE(server.serve_once());
  EXPECT_FALSE(server.serve_once()) << "it holds two";
  for (const std::uint32_t expected : {0u, 1u}) {
    ASSERT_EQ(consumer.try_pop(item), Pop::done);
    EXPECT_EQ(item, expected);
  }
  EXPECT_FALSE(server.serve_once()) << "it still does";
  ASSERT_EQ(queue.ref().try_pop(item), Pop::done);
  EXPECT_EQ(item, 2u) << "the rest is for all";
  consumer.done();
  EXPECT_TRUE(server.serve_once());
  ASSERT_EQ(consumer.try_pop(item), Pop::done);
  EXPECT_EQ(item, 3u);
  EXPECT_EQ(consumer.try_pop(item), Pop::empty);
}

TEST(HostConsumers, the_end_waits_for_what_they_hold) {
  Queue queue(Device::host_serial(), options(4));
  Hosts hosts(Device::host_serial(), of(1, 2));
  Consumer consumer = hosts.consumer();
  const auto server = hosts.ref(queue.ref());
  for (int round = 0; round < 2; ++round) {
    queue.fill(numbers(2));
    hosts.reopen();
    std::uint32_t item = 0;
    EXPECT_TRUE(server.serve_once());
    for (int at = 0; at < 2; ++at) ASSERT_EQ(consumer.try_pop(item), Pop::done);
    consumer.done();
    EXPECT_TRUE(server.serve_once());
    EXPECT_EQ(queue.ref().try_pop(item), Pop::empty) << "one is not done";
    consumer.done();
    EXPECT_EQ(server.serve(), Pop::finished);
    EXPECT_EQ(consumer.pop(item), Pop::finished);
    EXPECT_EQ(queue.ref().pop(item), Pop::finished);
  }
}

TEST(HostConsumers, are_told_when_the_queue_breaks) {
  Queue queue(Device::host_serial(), options(4));
  Hosts hosts(Device::host_serial(), of(1, 2));
  Consumer consumer = hosts.consumer();
  const auto server = hosts.ref(queue.ref());
  queue.fill(numbers(4));
  std::uint32_t item = 0;
  EXPECT_TRUE(server.serve_once());
  queue.ref().break_up();
  EXPECT_EQ(server.serve(), Pop::broken);
  EXPECT_EQ(consumer.try_pop(item), Pop::broken) << "whatever it holds";
  EXPECT_EQ(consumer.pop(item), Pop::broken);
  EXPECT_THAT([&] { hosts.reopen(); }, ThrowsMessage<BadArgument>(HasSubstr("make new ones")));
}

TEST(HostConsumers, patience_that_ends_on_either_side_breaks_the_queue_and_is_reported) {
  const HostConsumersOptions impatient{.consumers = 1, .outbox = 2, .patience = 20ms};
  std::uint32_t item = 0;
  {
    Queue queue(Device::host_serial(), options(4));
    Hosts hosts(Device::host_serial(), impatient);
    queue.fill(numbers(1));
    Consumer consumer = hosts.consumer();
    EXPECT_EQ(consumer.pop(item), Pop::broken) << "nobody serves";
    EXPECT_EQ(hosts.ref(queue.ref()).serve(), Pop::broken);
    EXPECT_EQ(queue.ref().try_pop(item), Pop::broken);
    ASSERT_EQ(hosts.reports().size(), 1u);
    EXPECT_THAT(hosts.reports().front().message(), HasSubstr("'host consumer'"));
  }
  {
    Queue queue(Device::host_serial(), options(4));
    Hosts hosts(Device::host_serial(), impatient);
    queue.fill(numbers(1));
    Consumer consumer = hosts.consumer();
    EXPECT_EQ(hosts.ref(queue.ref()).serve(), Pop::broken) << "the host does nothing";
    EXPECT_EQ(consumer.pop(item), Pop::broken);
    ASSERT_EQ(hosts.reports().size(), 1u);
    EXPECT_THAT(hosts.reports().front().message(), HasSubstr("'server of host consumers'"));
  }
}

TEST(HostConsumers, refuse_what_they_cannot_be_made_of) {
  const auto make = [](const HostConsumersOptions& with) {
    return [with] { Hosts hosts(Device::host_serial(), with); };
  };
  EXPECT_THAT(make(of(1, 3)),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("outbox"), HasSubstr("use 2 or 4"))));
  EXPECT_THAT(make(of(0, 4)), ThrowsMessage<BadArgument>(HasSubstr("0 consumers; use 1 to 1024")));
  EXPECT_THAT(make(of(2000, 4)), ThrowsMessage<BadArgument>(HasSubstr("2000 consumers")));
  Hosts hosts(Device::host_serial(), of(1, 4));
  (void)hosts.consumer();
  EXPECT_THAT(
      [&] { (void)hosts.consumer(); },
      ThrowsMessage<BadArgument>(AllOf(HasSubstr("consumer 2 of 1"), HasSubstr("declare"))));
  EXPECT_THAT(make({.consumers = 1, .patience = 0ns}),
              ThrowsMessage<BadArgument>(HasSubstr("positive")));
}

// --- threads ------------------------------------------------------------------------------------

TEST(HostConsumers, share_the_items_with_threads_of_the_device) {
  constexpr std::uint32_t kEach = 20'000 / kSlowdown;
  for (const std::size_t capacity : {1, 32}) {
    SCOPED_TRACE(testing::Message() << capacity << " places");
    Queue queue(Device::host_serial(), options(capacity, 1, 4));
    Hosts hosts(Device::host_serial(), of(2, 4));
    RingWriter<std::uint32_t> writer = queue.producer();
    std::vector<Consumer> consumers{hosts.consumer(), hosts.consumer()};
    std::vector<std::vector<unsigned>> counts(3, std::vector<unsigned>(kEach));
    const auto server = hosts.ref(queue.ref());
    const Deadline deadline;
    run_threads(5, [&](unsigned thread) {
      if (thread < 2) return consume(consumers[thread], counts[thread]);
      if (thread == 3) {
        ASSERT_EQ(server.serve(), Pop::finished);
        return expect_one_each(counts);  // plainly: were it not after all, it would be a race
      }
      if (thread == 4) {
        for (std::uint32_t at = 0; at < kEach; ++at) send(writer, at, deadline);
        return writer.close();
      }
      const auto ref = queue.ref();
      for (std::uint32_t item = 0;;) {
        const Pop result = ref.pop(item);
        if (result == Pop::finished) return;
        ASSERT_EQ(result, Pop::done);
        ++counts[thread][item];
        ref.done();
      }
    });
  }
}

// --- beside kernels -----------------------------------------------------------------------------

class SmallHostConsumers : public OnEachDevice {
 protected:
  static constexpr std::uint32_t kItems = 400;

  /// Two host threads pop beside a kernel of `blocks`, of which the first serves; then everything
  /// came once.
  void expect_shared(Queue& queue, unsigned blocks) {
    Hosts hosts(device(), of(2, 4));
    std::vector<std::vector<unsigned>> counts(2, std::vector<unsigned>(kItems));
    std::vector<std::thread> threads;
    for (std::vector<unsigned>& count : counts)
      threads.emplace_back(
          [&count, consumer = hosts.consumer()]() mutable { consume(consumer, count); });
    const auto popped = buffer(std::vector<Cell>(kItems));
    const auto cells = buffer(std::vector<Cell>(3));
    stream().kernel(
        serve_hosts, Grid{{blocks}, {64}},
        {{queue.ref(), kItems, popped.data(), cells.data(), cells.data() + 1, Divergence::odd_sets},
         hosts.ref(queue.ref()),
         cells.data() + 2});
    stream().synchronize();
    for (std::thread& thread : threads) thread.join();
    for (const device::WaitReport& report : hosts.reports()) ADD_FAILURE() << report.message();
    for (const device::WaitReport& report : queue.reports()) ADD_FAILURE() << report.message();
    EXPECT_EQ(cells.read()[0].load(device::relaxed), 0u) << "wrong";
    EXPECT_EQ(cells.read()[1].load(device::relaxed), 0u) << "broken";
    EXPECT_EQ(cells.read()[2].load(device::relaxed), 1u) << "finished";
    auto& by_kernel = counts.emplace_back();
    for (const Cell& cell : popped.read()) by_kernel.push_back(cell.load(device::relaxed));
    expect_one_each(counts);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallHostConsumers);

TEST_P(SmallHostConsumers, work_off_what_a_kernel_pushed) {
  Queue queue(device(), options(512));
  const auto refused = buffer(std::vector<Cell>(1));
  stream().kernel(push_items, Grid{{2}, {64}},
                  {queue.ref(), kItems, refused.data(), Divergence::none});
  expect_shared(queue, 1);
  EXPECT_EQ(refused.read().front().load(device::relaxed), 0u);
}

TEST_P(SmallHostConsumers, share_the_items_with_blocks_that_pop) {
  Queue queue(device(), options(512));
  queue.fill(numbers(kItems));
  expect_shared(queue, 3);
}

}  // namespace
}  // namespace attacca::test
