// Tests of persistent workers: they pull from a queue or a counter, work alone or in teams, push
// more work, and end when all is done.
#include <gmock/gmock.h>

#include <numeric>
#include <thread>

#include "support/on_each_device.hpp"
#include "support/real_threads.hpp"
#include "support/worker_kernels.hpp"

namespace attacca::test {
namespace {

using std::chrono_literals::operator""ms;
using testing::AllOf;
using testing::HasSubstr;

constexpr Team kTeams[] = {Team::thread, Team::warp, Team::block};

class SmallDeviceWorkers : public OnEachDevice {
 protected:
  unsigned value_of(const Buffer<Counter>& counter, std::size_t at) const {
    return counter.read()[at].load(device::relaxed);
  }
  Buffer<Counter> counters() const {
    return Buffer<Counter>(device(), std::vector<Counter>(2, Counter(0)));
  }
  /// Threads that work on one item.
  unsigned members(Team team, unsigned threads) const {
    return !is_cuda() || team == Team::thread ? 1 : team == Team::warp ? 32 : threads;
  }
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceWorkers);

TEST_P(SmallDeviceWorkers, each_ticket_is_worked_on_once) {
  for (const Team team : kTeams)
    for (const unsigned batch : {0u, 1u, 3u, 100u}) {
      constexpr std::size_t kTickets = 5000;
      const Buffer<unsigned> hits = buffer(std::vector<unsigned>(kTickets, 0));
      const Buffer<device::TicketCounter> counter(device(), 1);
      stream().fill(counter.data(), 0, counter.bytes());
      hit_workers(team).start(stream(), {counter.data(), kTickets}, {hits.data()},
                              {.threads = 64, .batch = batch});
      stream().synchronize();
      EXPECT_EQ(hits.read(), std::vector<unsigned>(kTickets, 1));
    }
}

TEST_P(SmallDeviceWorkers, workers_that_push_work_end_when_all_of_it_is_done) {
  for (const Team team : kTeams)
    for (const unsigned batch : {0u, 1u, 4u, 100u}) {
      device::WorkQueue<Branch> queue(device(), {.capacity = 4096});
      queue.fill(std::vector<Branch>{{8}, {5}});
      const Buffer<Counter> counts = counters();
      tree_workers(team).start(stream(), queue.ref(), {counts.data(), counts.data() + 1},
                               {.threads = 64, .blocks = is_cuda() ? 4u : 1u, .batch = batch});
      stream().synchronize();
      const unsigned items = 511 + 63;
      EXPECT_EQ(value_of(counts, 0), items);
      EXPECT_EQ(value_of(counts, 1), items * members(team, 64));
      EXPECT_TRUE(queue.reports().empty());
    }
}

TEST_P(SmallDeviceWorkers, a_full_queue_loses_nothing_when_workers_do_the_rest_themselves) {
  device::WorkQueue<Branch> queue(device(), {.capacity = 2});
  queue.fill(std::vector<Branch>{{10}});
  const Buffer<Counter> counts = counters();
  tree_workers(Team::thread)
      .start(stream(), queue.ref(), {counts.data(), counts.data() + 1}, {.threads = 32});
  stream().synchronize();
  EXPECT_EQ(value_of(counts, 0), 2047u);
}

TEST_P(SmallDeviceWorkers, host_threads_feed_workers_that_run) {
  device::WorkQueue<Branch> queue(device(), {.capacity = 64, .producers = 2, .inbox = 4});
  const Buffer<Counter> counts = counters();
  tree_workers(Team::warp)
      .start(stream(), queue.ref(), {counts.data(), counts.data() + 1},
             {.threads = 64, .blocks = 1});
  const auto feed = [](device::Producer<Branch> producer) {
    for (int at = 0; at < 100; ++at)
      while (producer.try_push({at % 2 == 0 ? 0u : 1u}) == device::Push::full)
        std::this_thread::yield();
  };
  std::thread first(feed, queue.producer());
  std::thread second(feed, queue.producer());
  first.join();
  second.join();
  stream().synchronize();
  EXPECT_EQ(value_of(counts, 0), 2u * (50 + 50 * 3));
  EXPECT_TRUE(queue.reports().empty());
}

TEST_P(SmallDeviceWorkers, a_producer_slower_than_the_patience_loses_nothing) {
  constexpr unsigned kItems = 2;
  for (const Team team : kTeams) {
    device::WorkQueue<Branch> queue(device(), {.capacity = 64, .producers = 1, .patience = 20ms});
    const Buffer<Counter> counts = counters();
    tree_workers(team).start(stream(), queue.ref(), {counts.data(), counts.data() + 1},
                             {.threads = 64, .blocks = is_cuda() ? 8u : 0u});
    {
      device::Producer<Branch> producer = queue.producer();
      for (unsigned at = 0; at < kItems; ++at) {
        std::this_thread::sleep_for(30ms);
        EXPECT_EQ(producer.try_push({0}), device::Push::done);
      }
    }
    EXPECT_NO_THROW(stream().synchronize());
    EXPECT_EQ(value_of(counts, 0), kItems);
    const device::WorkQueueStatus status = queue.status();
    EXPECT_EQ(status.accepted, kItems);
    EXPECT_EQ(status.done, kItems) << status.message();
  }
}

TEST_P(SmallDeviceWorkers, a_long_item_is_seen_at_work_and_ends_itself_once_cancelled) {
  for (const Team team : kTeams) {
    device::WorkQueue<int> queue(device(), {.capacity = 8, .producers = 1, .patience = 5ms});
    queue.fill(std::vector<int>{-1});
    using Flag = device::Atomic<unsigned, device::Scope::system>;
    const Buffer<Flag> has_begun(device(), std::vector<Flag>(1, Flag(0)), Visibility::shared);
    device::Producer<int> producer = queue.producer();
    lingering_workers(team).start(stream(), queue.ref(), {has_begun.data()},
                                  {.threads = 64, .blocks = is_cuda() ? 2u : 0u, .batch = 1});
    const Deadline deadline;
    while (queue.status().done == 0 && !deadline.is_over()) std::this_thread::yield();
    EXPECT_EQ(producer.try_push(1), device::Push::done);
    while (has_begun.data()->load(device::acquire) == 0 && !deadline.is_over())
      std::this_thread::yield();
    std::this_thread::sleep_for(20ms);  // longer than the waiters' patience
    const device::WorkQueueStatus status = queue.status();
    EXPECT_EQ(status.in_work, 1u) << status.message();
    EXPECT_EQ(status.done, 1u) << status.message();
    EXPECT_EQ(status.end, device::QueueEnd::none);
    EXPECT_EQ(status.open_producers, 1u);

    queue.cancel();
    EXPECT_NO_THROW(stream().synchronize()) << "it was asked for";
    EXPECT_EQ(producer.try_push(1), device::Push::broken);
    EXPECT_EQ(queue.status().end, device::QueueEnd::cancelled);
    EXPECT_EQ(queue.status().done, 2u) << "the long item came to its end";
    EXPECT_TRUE(queue.reports().empty());
  }
}

TEST_P(SmallDeviceWorkers, a_queue_that_breaks_is_explained_at_synchronize) {
  for (const unsigned blocks : {1u, 0u}) {  // one block, and as many as fit
    device::WorkQueue<Branch> queue(
        device(), {.capacity = 8, .producers = 1, .patience = 20ms, .name = "branches"});
    queue.fill(std::vector<Branch>{{0}, {0}});
    device::Producer<Branch> producer = queue.producer();
    const Buffer<Counter> counts = counters();
    stream().kernel(abandon_place, Grid{}, {queue.ref()});
    tree_workers(Team::thread)
        .start(stream(), queue.ref(), {counts.data(), counts.data() + 1},
               {.threads = 32, .blocks = blocks});
    EXPECT_THAT([&] { stream().synchronize(); },
                testing::ThrowsMessage<SourceBroken>(
                    AllOf(HasSubstr("'grow tree'"), HasSubstr("branches broke"),
                          HasSubstr("nobody filled it"), HasSubstr("3 accepted: 2 done"),
                          HasSubstr("1 in work"), HasSubstr("consumer of branches"))));
    EXPECT_NO_THROW(stream().synchronize()) << "told once";
    EXPECT_EQ(queue.reports().size(), 1u);
    EXPECT_EQ(queue.end(), device::QueueEnd::not_filled);
    EXPECT_EQ(producer.try_push({0}), device::Push::broken);
    EXPECT_EQ(value_of(counts, 0), 2u);

    queue.fill(std::vector<Branch>{{0}});
    producer.close();
    tree_workers(Team::thread)
        .start(stream(), queue.ref(), {counts.data(), counts.data() + 1},
               {.threads = 32, .blocks = blocks});
    EXPECT_NO_THROW(stream().synchronize()) << "as new";
    EXPECT_EQ(value_of(counts, 0), 3u);
  }
}

TEST_P(SmallDeviceWorkers, an_idle_limit_is_told_at_synchronize) {
  device::WorkQueue<Branch> queue(device(), {.capacity = 8, .producers = 1, .idle_limit = 10ms});
  const Buffer<Counter> counts = counters();
  tree_workers(Team::block)
      .start(stream(), queue.ref(), {counts.data(), counts.data() + 1},
             {.threads = 32, .blocks = 1});
  EXPECT_THAT([&] { stream().synchronize(); },
              testing::ThrowsMessage<SourceBroken>(
                  AllOf(HasSubstr("idle limit"), HasSubstr("1 producer is open"))));
}

TEST_P(SmallDeviceWorkers, a_queue_can_be_filled_again) {
  device::WorkQueue<Branch> queue(device(), {.capacity = 256});
  const Buffer<Counter> counts = counters();
  for (int round = 1; round <= 3; ++round) {
    queue.fill(std::vector<Branch>{{6}});
    tree_workers(Team::warp)
        .start(stream(), queue.ref(), {counts.data(), counts.data() + 1}, {.threads = 32});
    stream().synchronize();
    EXPECT_EQ(value_of(counts, 0), 127u * static_cast<unsigned>(round));
  }
}

TEST_P(SmallDeviceWorkers, they_run_in_a_graph) {
  constexpr std::size_t kTickets = 300;
  const Buffer<unsigned> hits = buffer(std::vector<unsigned>(kTickets, 0));
  const Buffer<device::TicketCounter> counter(device(), 1);
  const auto workers = hit_workers(Team::warp);
  Graph graph(device());
  const auto clear = graph.fill(counter.data(), 0, counter.bytes());
  workers.add_to(graph, device(), {counter.data(), kTickets}, {hits.data()}, {.batch = 4})
      .after(clear);
  Exec exec = graph.instantiate();
  for (int round = 0; round < 3; ++round) run(exec);
  EXPECT_EQ(hits.read(), std::vector<unsigned>(kTickets, 3));
}

TEST_P(SmallDeviceWorkers, bad_options_are_refused_with_the_remedy) {
  const auto refused = [&](const WorkerOptions& options) -> std::string {
    try {
      hit_workers(Team::warp).grid(device(), options);
    } catch (const BadArgument& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(refused({.threads = 0}), HasSubstr("0 threads in a block; use a multiple of 32"));
  EXPECT_THAT(refused({.threads = 48}), HasSubstr("48 threads"));
  EXPECT_THAT(refused({.batch = 5000}), HasSubstr("a batch of 5000; use 1 to 1024"));
  EXPECT_THAT(refused({.blocks = 1u << 20}), HasSubstr("1048576 blocks"));
  EXPECT_THAT(refused({.blocks = 1u << 20}), HasSubstr("use at most"));
}

}  // namespace
}  // namespace attacca::test
