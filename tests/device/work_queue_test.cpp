// Tests of WorkQueue: no item is lost or doubled, items of one producer reach one consumer in
// order, and the end is found or forced. Tests under a relaxed memory model are in tests/relacy.
#include <gmock/gmock.h>
#include <attacca/device/work_queue.hpp>
#include <attacca/error.hpp>

#include <deque>
#include <numeric>
#include <optional>

#include "support/queues.hpp"
#include "support/seeded.hpp"

namespace attacca::test {
namespace {

using attacca::device::Pop;
using attacca::device::Push;
using attacca::device::QueueEnd;
using attacca::device::WaitReport;
using attacca::device::WorkQueueOptions;
using attacca::device::WorkQueueStatus;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""ns;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Producer = device::Producer<std::uint32_t>;

void expect_status(const WorkQueueStatus& status, const WorkQueueStatus& expected) {
  EXPECT_EQ(status.accepted, expected.accepted) << status.message();
  EXPECT_EQ(status.done, expected.done) << status.message();
  EXPECT_EQ(status.waiting, expected.waiting) << status.message();
  EXPECT_EQ(status.in_work, expected.in_work) << status.message();
  EXPECT_EQ(status.open_producers, expected.open_producers) << status.message();
  EXPECT_EQ(status.end, expected.end);
}
/// Checks that there is one report, of a wait of at least `patience`.
void expect_report(const Queue& queue, const char* who, const char* what,
                   std::chrono::nanoseconds patience) {
  const std::vector<WaitReport> reports = queue.reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_THAT(reports.front().message(), AllOf(HasSubstr(who), HasSubstr(what)));
  EXPECT_GE(reports.front().record.nanoseconds, static_cast<std::uint64_t>(patience.count()));
}

/// Pops until the end. Items of each producer, which pushed `each`, must come in order.
void consume(const QueueRef& ref, std::uint32_t each, std::vector<unsigned>& counts) {
  std::int64_t last[2] = {-1, -1};
  for (;;) {
    std::uint32_t item = 0;
    const Pop result = ref.pop(item);
    if (result == Pop::finished) return;
    ASSERT_EQ(result, Pop::done);
    ASSERT_LT(item, counts.size());
    ++counts[item];
    ASSERT_GT(std::int64_t{item}, last[item / each]) << "out of order";
    last[item / each] = item;
    ref.done();
  }
}

/// Pops until the end. Returns whether the queue broke.
bool ends_broken(const Queue& queue) {
  std::uint32_t item = 0;
  Pop result = Pop::empty;
  while ((result = queue.ref().pop(item)) == Pop::done) queue.ref().done();
  return result == Pop::broken;
}

// --- threads ------------------------------------------------------------------------------------

/// One or two producers push in order, and `consumers` threads pop. A producer counts as an item,
/// which it has popped, until it is done.
void expect_passed(std::size_t capacity, unsigned consumers) {
  constexpr std::uint32_t kItems = 100'000 / kSlowdown;
  const auto producers = static_cast<std::uint32_t>(std::min<std::size_t>(2, capacity));
  const std::uint32_t each = kItems / producers;
  Queue queue(Device::host_serial(), options(capacity));
  queue.fill(numbers(producers));
  std::uint32_t seed = 0;
  for (std::uint32_t at = 0; at < producers; ++at) ASSERT_EQ(queue.ref().pop(seed), Pop::done);

  std::vector<std::vector<unsigned>> counts(consumers, std::vector<unsigned>(kItems));
  run_threads(producers + consumers, [&](unsigned thread) {
    const auto ref = queue.ref();
    if (thread < producers) {
      for (std::uint32_t at = 0; at < each; ++at)
        ASSERT_EQ(ref.push(thread * each + at), Push::done);
      ref.done();
      return;
    }
    consume(ref, each, counts[thread - producers]);
  });
  expect_one_each(counts);
}

TEST(WorkQueue, threads_lose_and_double_nothing_and_keep_each_producer_s_order) {
  for (const std::size_t capacity : {1, 2, 64})
    for (const unsigned consumers : {1u, 2u}) {
      SCOPED_TRACE(testing::Message() << capacity << " places, " << consumers << " consumers");
      expect_passed(capacity, consumers);
    }
}

TEST(WorkQueue, threads_that_push_work_see_its_end_and_its_results) {
  constexpr std::uint32_t kNodes = 100'000 / kSlowdown;
  const Tree tree(kNodes);
  for (const std::size_t capacity : {1, 16, 4096}) {
    SCOPED_TRACE(testing::Message() << capacity << " places");
    Queue queue(Device::host_serial(), options(capacity));
    queue.fill(std::vector<std::uint32_t>{0});
    std::vector<unsigned> results(kNodes);
    run_threads(4, [&](unsigned) {
      const auto ref = queue.ref();
      std::vector<std::uint32_t> own;
      for (;;) {
        std::uint32_t node = 0;
        const Pop result = ref.pop(node);
        if (result == Pop::finished) break;
        ASSERT_EQ(result, Pop::done);
        for (own.assign(1, node); !own.empty();) {
          node = own.back();
          own.pop_back();
          ++results[node];  // not atomic: a node that came twice is a race
          for (std::uint32_t at = tree.offsets[node]; at < tree.offsets[node + 1]; ++at)
            if (ref.try_push(tree.children[at]) == Push::full) own.push_back(tree.children[at]);
        }
        ref.done();
      }
      for (const unsigned count : results) ASSERT_EQ(count, 1u);
    });
  }
}

TEST(WorkQueue, host_producers_feed_consumers_through_their_rings) {
  constexpr std::uint32_t kEach = 50'000 / kSlowdown;
  for (const std::size_t capacity : {1, 32}) {
    SCOPED_TRACE(testing::Message() << capacity << " places");
    Queue queue(Device::host_serial(), options(capacity, 2, 4));
    Producer writers[] = {queue.producer(), queue.producer()};
    std::vector<std::vector<unsigned>> counts(2, std::vector<unsigned>(2 * kEach));
    const Deadline deadline;
    run_threads(4, [&](unsigned thread) {
      if (thread < 2) {
        for (std::uint32_t at = 0; at < kEach; ++at)
          send(writers[thread], thread * kEach + at, deadline);
        writers[thread].close();
        return;
      }
      consume(queue.ref(), kEach, counts[thread - 2]);
    });
    expect_one_each(counts);
  }
}

TEST(WorkQueue, cancelling_it_lets_all_threads_go) {
  Queue queue(Device::host_serial(), options(4, 1));
  queue.fill(std::vector<std::uint32_t>{1});
  run_threads(4, [&](unsigned thread) {
    const auto ref = queue.ref();
    std::uint32_t item = 0;
    if (thread == 0) {
      while (ref.push(7) == Push::done) {
      }
    } else if (thread == 1) {
      for (int popped = 0; popped < 1000; ++popped) ASSERT_EQ(ref.pop(item), Pop::done);
      ref.cancel();
    } else {
      Pop result = Pop::done;
      while (result == Pop::done) result = ref.pop(item);
      ASSERT_EQ(result, Pop::broken);
    }
  });
  std::uint32_t item = 0;
  const auto ref = queue.ref();
  EXPECT_TRUE(ref.is_broken());
  EXPECT_EQ(ref.try_push(1), Push::broken) << "whatever room there is";
  EXPECT_EQ(ref.push(1), Push::broken);
  EXPECT_EQ(ref.try_pop(item), Pop::broken) << "whatever is left";
  EXPECT_EQ(ref.pop(item), Pop::broken);
  EXPECT_TRUE(queue.reports().empty()) << "nobody lost patience";
  queue.fill(std::vector<std::uint32_t>{5});
  EXPECT_EQ(ref.pop(item), Pop::done) << "as new";
  EXPECT_EQ(item, 5u);
}

// --- one thread ---------------------------------------------------------------------------------

TEST(WorkQueue, follows_a_deque) {
  EXPECT_TRUE(rc::check("a queue follows a deque", [] {
    const std::size_t capacity = std::size_t{1} << *rc::gen::inRange(0, 4);
    const auto start = *rc::gen::inRange<std::size_t>(0, capacity + 1);
    const auto steps = *rc::gen::container<std::vector<std::pair<int, std::uint32_t>>>(
        rc::gen::pair(rc::gen::inRange(0, 5), rc::gen::inRange(1u, 6u)));
    Queue queue(Device::host_serial(), options(capacity));
    const auto ref = queue.ref();
    std::deque<std::uint32_t> model;
    for (std::size_t at = 0; at < start; ++at) model.push_back(static_cast<std::uint32_t>(at));
    queue.fill(std::vector<std::uint32_t>(model.begin(), model.end()));
    std::size_t alive = start;
    std::uint32_t next = 100;
    for (const auto& [step, amount] : steps) {
      if (step == 0) {
        const bool has_room = model.size() < capacity;
        RC_ASSERT(ref.try_push(next) == (has_room ? Push::done : Push::full));
        if (!has_room) continue;
        model.push_back(next++);
        ++alive;
      } else if (step == 1) {
        std::uint32_t item = 0;
        const Pop result = ref.try_pop(item);
        if (model.empty()) {
          RC_ASSERT(result == (alive ? Pop::empty : Pop::finished));
          continue;
        }
        RC_ASSERT(result == Pop::done);
        RC_ASSERT(item == model.front());
        model.pop_front();
      } else if (step == 2) {  // a batch in
        const auto claim = ref.claim_room(amount);
        RC_ASSERT(claim.count == std::min<std::size_t>(amount, capacity - model.size()));
        for (std::uint32_t at = 0; at < claim.count; ++at) {
          RC_ASSERT(ref.put(claim.first + at, next));
          model.push_back(next++);
        }
        alive += claim.count;
      } else if (step == 3) {  // a batch out
        const auto claim = ref.claim_items(amount);
        RC_ASSERT(claim.count == std::min<std::size_t>(amount, model.size()));
        for (std::uint32_t at = 0; at < claim.count; ++at) {
          std::uint32_t item = 0;
          RC_ASSERT(ref.take(claim.first + at, item));
          RC_ASSERT(item == model.front());
          model.pop_front();
        }
      } else if (const std::size_t popped = alive - model.size()) {
        const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(popped, amount));
        count == 1 ? ref.done() : ref.done(count);
        alive -= count;
      }
    }
  }));
}

TEST(WorkQueue, a_producer_s_items_wait_in_its_ring_for_room) {
  Queue queue(Device::host_serial(), options(2, 1, 8));
  Producer producer = queue.producer();
  for (std::uint32_t at = 0; at < 8; ++at) EXPECT_EQ(producer.try_push(at), Push::done);
  EXPECT_EQ(producer.try_push(8), Push::full) << "back-pressure";
  expect_status(queue.status(), {.accepted = 8, .waiting = 8, .open_producers = 1});
  std::uint32_t item = 0;
  for (std::uint32_t at = 0; at < 8; ++at) {
    ASSERT_EQ(queue.ref().pop(item), Pop::done);
    EXPECT_EQ(item, at);
    queue.ref().done();
  }
  EXPECT_EQ(queue.ref().try_pop(item), Pop::empty) << "more may come";
  EXPECT_EQ(producer.try_push(8), Push::done);
  producer.close();
  ASSERT_EQ(queue.ref().pop(item), Pop::done);
  expect_status(queue.status(), {.accepted = 9, .done = 8, .in_work = 1});
  EXPECT_EQ(queue.ref().try_pop(item), Pop::empty) << "it may lead to more";
  queue.ref().done();
  EXPECT_EQ(queue.ref().pop(item), Pop::finished);
  expect_status(queue.status(), {.accepted = 9, .done = 9});
}

TEST(WorkQueue, a_producer_closes_at_the_end_of_its_life_and_only_once) {
  Queue queue(Device::host_serial(), options(4, 3));
  std::uint32_t item = 0;
  {
    Producer first = queue.producer();
    Producer moved = std::move(first);
    EXPECT_FALSE(first.is_open()) << "it gave its ring away";
    EXPECT_EQ(first.try_push(7), Push::broken);
    EXPECT_EQ(moved.try_push(1), Push::done);
    Producer second = queue.producer();
    second = queue.producer();
    EXPECT_EQ(queue.status().open_producers, 2u) << "what was assigned to has closed";
    second.close();
    second.close();
    EXPECT_EQ(second.try_push(7), Push::broken);
  }
  EXPECT_EQ(queue.status().open_producers, 0u);
  EXPECT_EQ(queue.ref().pop(item), Pop::done);
  EXPECT_EQ(item, 1u);
  queue.ref().done();
  EXPECT_EQ(queue.ref().pop(item), Pop::finished);
}

TEST(WorkQueue, a_producer_may_outlive_its_queue) {
  std::optional<Queue> queue(std::in_place, Device::host_serial(), options(4, 1));
  Producer producer = queue->producer();
  queue.reset();
  EXPECT_FALSE(producer.is_open());
  EXPECT_EQ(producer.try_push(1), Push::broken);
}

TEST(WorkQueue, many_items_go_through_a_producer_at_once) {
  Queue queue(Device::host_serial(), options(4, 1, 8));
  Producer producer = queue.producer();
  EXPECT_EQ(producer.try_push(numbers(20)), 8u) << "as many as there is room for";
  EXPECT_EQ(producer.try_push(numbers(1)), 0u);
}

TEST(WorkQueue, can_be_filled_again_after_its_producers_have_closed) {
  Queue queue(Device::host_serial(), options(4, 2));
  std::uint32_t item = 0;
  queue.producer().close();
  auto other = queue.producer();
  EXPECT_EQ(queue.ref().try_pop(item), Pop::empty);
  for (int round = 0; round < 2; ++round) {
    queue.fill(std::vector<std::uint32_t>{1, 2});
    for (int at = 0; at < 2; ++at) {
      ASSERT_EQ(queue.ref().pop(item), Pop::done);
      queue.ref().done();
    }
    if (round == 0) other.close();
    EXPECT_EQ(queue.ref().pop(item), Pop::finished);
  }
}

// --- how it ends --------------------------------------------------------------------------------

TEST(WorkQueue, waiting_for_a_producer_is_no_fault) {
  // Eight consumers, and items that come further apart than the patience. When each waiter's own
  // idle time counted, the queue broke for all.
  constexpr std::uint32_t kItems = 5;
  Queue queue(Device::host_serial(), {.capacity = 4, .producers = 1, .inbox = 2, .patience = 20ms});
  std::vector<unsigned> done(8);
  run_threads(9, [&](unsigned thread) {
    if (thread == 8) {
      Producer producer = queue.producer();
      for (std::uint32_t at = 0; at < kItems; ++at) {
        std::this_thread::sleep_for(30ms);
        EXPECT_EQ(producer.try_push(at), Push::done);
      }
      return;
    }
    std::uint32_t item = 0;
    Pop result = Pop::empty;
    while ((result = queue.ref().pop(item)) == Pop::done) {
      ++done[thread];
      queue.ref().done();
    }
    EXPECT_EQ(result, Pop::finished);
  });
  EXPECT_TRUE(queue.reports().empty());
  EXPECT_EQ(std::accumulate(done.begin(), done.end(), 0u), kItems);
  expect_status(queue.status(), {.accepted = kItems, .done = kItems});
}

TEST(WorkQueue, waiting_for_a_worker_that_is_busy_is_no_fault) {
  Queue queue(Device::host_serial(), {.capacity = 2, .patience = 2ms, .idle_limit = 2ms});
  queue.fill(numbers(1));
  std::uint32_t item = 0;
  ASSERT_EQ(queue.ref().pop(item), Pop::done);
  std::thread waiter([&] {
    std::uint32_t other = 0;
    EXPECT_EQ(queue.ref().pop(other), Pop::finished);
  });
  std::this_thread::sleep_for(10ms);
  expect_status(queue.status(), {.accepted = 1, .in_work = 1});
  queue.ref().done();
  waiter.join();
  EXPECT_TRUE(queue.reports().empty());
}

TEST(WorkQueue, a_full_queue_that_nobody_takes_from_breaks) {
  Queue queue(Device::host_serial(),
              {.capacity = 2, .producers = 1, .inbox = 4, .patience = 20ms, .name = "letters"});
  Producer producer = queue.producer();
  EXPECT_EQ(producer.try_push(9), Push::done);
  for (std::uint32_t at = 0; at < 2; ++at) EXPECT_EQ(queue.ref().push(at), Push::done);
  EXPECT_EQ(queue.ref().push(2), Push::broken) << "no room comes";
  std::uint32_t item = 0;
  EXPECT_EQ(queue.ref().pop(item), Pop::broken);
  EXPECT_EQ(queue.ref().try_push(3), Push::broken);
  EXPECT_EQ(producer.try_push(3), Push::broken) << "the host learns of it";
  EXPECT_FALSE(producer.is_open());
  expect_report(queue, "producer of letters", "items taken", 20ms);
  expect_status(queue.status(),
                {.accepted = 3, .waiting = 3, .open_producers = 1, .end = QueueEnd::not_taken});
}

TEST(WorkQueue, a_claimed_place_that_nobody_fills_breaks_it) {
  Queue queue(Device::host_serial(), {.capacity = 2, .patience = 20ms});
  const auto claim = queue.ref().claim_room(1);
  ASSERT_EQ(claim.count, 1u);
  std::uint32_t item = 0;
  EXPECT_EQ(queue.ref().pop(item), Pop::broken);
  EXPECT_FALSE(queue.ref().take(claim.first, item));
  EXPECT_EQ(queue.end(), QueueEnd::not_filled);
  expect_report(queue, "consumer of work queue", "must be filled", 20ms);
}

TEST(WorkQueue, a_claimed_item_that_nobody_reads_breaks_it) {
  Queue queue(Device::host_serial(), {.capacity = 1, .patience = 20ms});
  queue.fill(numbers(1));
  ASSERT_EQ(queue.ref().claim_items(1).count, 1u);
  EXPECT_EQ(queue.ref().push(1), Push::broken);
  expect_report(queue, "producer of work queue", "must be read", 20ms);
  expect_status(queue.status(), {.accepted = 1, .in_work = 1, .end = QueueEnd::not_freed});
}

TEST(WorkQueue, an_idle_limit_ends_it_by_name) {
  Queue queue(Device::host_serial(),
              {.capacity = 2, .producers = 1, .inbox = 2, .idle_limit = 20ms});
  Producer producer = queue.producer();
  std::uint32_t item = 0;
  EXPECT_EQ(queue.ref().pop(item), Pop::broken);
  expect_report(queue, "consumer of work queue", "idle", 20ms);
  EXPECT_EQ(producer.try_push(1), Push::broken);
  expect_status(queue.status(), {.open_producers = 1, .end = QueueEnd::idle});
  EXPECT_EQ(queue.status().message(),
            "none accepted: none done, none waiting, none in work; 1 producer is open");
}

TEST(WorkQueue, the_host_cancels_it_while_others_wait) {
  Queue queue(Device::host_serial(), options(1, 1));
  const Producer producer = queue.producer();
  queue.fill(numbers(1));
  std::uint32_t item = 0, accepted = 1;
  ASSERT_EQ(queue.ref().pop(item), Pop::done);
  EXPECT_FALSE(queue.ref().is_cancelled());
  run_threads(4, [&](unsigned thread) {
    if (thread == 0) queue.cancel();
    if (thread == 1)
      while (queue.ref().push(4) == Push::done) ++accepted;
    EXPECT_TRUE(thread <= 1 || ends_broken(queue));
  });
  EXPECT_TRUE(queue.ref().is_cancelled());
  EXPECT_FALSE(producer.is_open());
  EXPECT_TRUE(queue.reports().empty()) << "nobody lost patience";
  queue.ref().done();  // an item that was popped before is still finished
  const WorkQueueStatus status = queue.status();
  EXPECT_EQ(status.end, QueueEnd::cancelled);
  EXPECT_EQ(status.accepted, accepted);
  // A consumer may have left the place it had claimed just before the item came.
  EXPECT_LE(status.in_work, 1u) << status.message();
  EXPECT_EQ(status.refused, 0u) << status.message();
}

TEST(WorkQueue, what_its_producers_sent_is_there_after_it_was_cancelled_and_filled_again) {
  Queue queue(Device::host_serial(), options(2, 1));
  Producer producer = queue.producer();
  EXPECT_EQ(producer.try_push(5), Push::done);
  queue.cancel();
  std::uint32_t item = 0;
  EXPECT_EQ(queue.ref().pop(item), Pop::broken);
  expect_status(queue.status(),
                {.accepted = 1, .waiting = 1, .open_producers = 1, .end = QueueEnd::cancelled});
  queue.fill({});
  EXPECT_EQ(queue.end(), QueueEnd::none);
  EXPECT_EQ(producer.try_push(6), Push::done);
  for (const std::uint32_t expected : {5u, 6u}) {
    ASSERT_EQ(queue.ref().pop(item), Pop::done);
    EXPECT_EQ(item, expected);
  }
}

TEST(WorkQueue, refuses_what_it_cannot_be_made_of) {
  const Device device = Device::host_serial();
  const auto make = [&](const WorkQueueOptions& of) {
    return [&device, of] { Queue queue(device, of); };
  };
  EXPECT_THAT(make(options(0)),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("capacity of 0"), HasSubstr("use"))));
  EXPECT_THAT(make(options(48)),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("48"), HasSubstr("use 32 or 64"))));
  EXPECT_THAT(make(options(std::size_t{1} << 31)),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("2147483648"), HasSubstr("at most"))));
  EXPECT_THAT(make(options(4, 1, 3)),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("inbox"), HasSubstr("use 2 or 4"))));
  EXPECT_THAT(make(options(4, 1, 0)), ThrowsMessage<BadArgument>(HasSubstr("capacity of 0")));
  EXPECT_THAT(make(options(4, 2000)),
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("2000"), HasSubstr("at most 1024"))));
  for (const auto patience : {0ns, -5ns})
    EXPECT_THAT(make({.capacity = 4, .patience = patience}),
                ThrowsMessage<BadArgument>(HasSubstr("positive")));

  for (const auto limit : {0ns, -5ns})
    EXPECT_THAT(make({.capacity = 4, .idle_limit = limit}),
                ThrowsMessage<BadArgument>(AllOf(HasSubstr("idle limit"), HasSubstr("positive"))));

  Queue queue(device, options(4, 1));
  queue.producer().close();
  EXPECT_THAT([&] { queue.producer(); }, ThrowsMessage<BadArgument>(AllOf(
                                             HasSubstr("producer 2 of 1"), HasSubstr("declare"))));
  EXPECT_THAT([&] { queue.fill(numbers(5)); },
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("5 items"), HasSubstr("capacity 8"))));
}

}  // namespace
}  // namespace attacca::test
