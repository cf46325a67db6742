// Tests of the resident scheduler: jobs from a queue run as graphs, one after another, without the
// host. The host and the jobs themselves push more.
#include <gmock/gmock.h>

#include <thread>

#include "support/on_each_device.hpp"
#include "support/real_threads.hpp"
#include "support/worker_kernels.hpp"

namespace attacca::test {
namespace {

using std::chrono_literals::operator""ms;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Jobs = std::vector<Job<Sum>>;

class SmallDeviceResident : public OnEachDevice {
 protected:
  /// Three kinds of jobs: 0 adds its value, 1 adds it twice, 2 adds it and may push others.
  ResidentScheduler<Sum> scheduler_of_sums(const device::WorkQueueOptions& options,
                                           const Buffer<unsigned>& sums) const {
    ResidentScheduler<Sum> scheduler(device(), schedule_sums, options);
    for (const unsigned times : {1u, 2u, 1u}) {
      Graph work(device(), "add");
      work.kernel(add_sum, Grid{}, {scheduler.current(), sums.data(), times, scheduler.queue()});
      scheduler.add(work);
    }
    return scheduler;
  }
  Buffer<unsigned> totals() const { return buffer(std::vector<unsigned>(4, 0)); }
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceResident);

TEST_P(SmallDeviceResident, every_job_runs_once_as_the_graph_it_names) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler = scheduler_of_sums({.capacity = 128}, sums);
  Jobs jobs;
  for (unsigned at = 0; at < 100; ++at) jobs.push_back({at % 2, {at % 4, at, 0}});
  scheduler.fill(jobs);
  scheduler.start(stream());
  stream().synchronize();
  std::vector<unsigned> expected(4, 0);
  for (const Job<Sum>& job : jobs) expected[job.payload.at] += (job.graph + 1) * job.payload.value;
  EXPECT_EQ(sums.read(), expected);
  EXPECT_TRUE(scheduler.reports().empty());
}

TEST_P(SmallDeviceResident, it_can_be_filled_and_started_again) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler = scheduler_of_sums({.capacity = 64}, sums);
  for (int round = 0; round < 3; ++round) {
    scheduler.fill(Jobs(40, {0, {1, 1, 0}}));
    scheduler.start(stream());
    stream().synchronize();
  }
  EXPECT_EQ(sums.read()[1], 120u);
}

TEST_P(SmallDeviceResident, a_job_may_lead_to_others) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler = scheduler_of_sums({.capacity = 8}, sums);
  scheduler.fill(Jobs{{2, {3, 5, 50}}, {0, {0, 1, 0}}});
  scheduler.start(stream());
  stream().synchronize();
  EXPECT_EQ(sums.read(), (std::vector<unsigned>{1, 0, 0, 5 * 51}));
}

TEST_P(SmallDeviceResident, the_host_adds_jobs_while_it_runs) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler =
      scheduler_of_sums({.capacity = 16, .producers = 1, .inbox = 8}, sums);
  scheduler.start(stream());
  auto producer = scheduler.producer();
  for (unsigned at = 0; at < 60; ++at)
    while (producer.try_push({0, {2, 1, 0}}) == device::Push::full) std::this_thread::yield();
  producer.close();
  stream().synchronize();
  EXPECT_EQ(sums.read()[2], 60u);
}

TEST_P(SmallDeviceResident, nothing_to_do_ends_at_once) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler = scheduler_of_sums({.capacity = 8}, sums);
  scheduler.start(stream());
  stream().synchronize();
  EXPECT_EQ(sums.read(), std::vector<unsigned>(4, 0));
}

TEST_P(SmallDeviceResident, waiting_for_jobs_is_no_fault) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler =
      scheduler_of_sums({.capacity = 16, .producers = 1, .inbox = 8, .patience = 5ms}, sums);
  scheduler.start(stream());
  {
    auto producer = scheduler.producer();
    for (unsigned at = 0; at < 3; ++at) {
      std::this_thread::sleep_for(15ms);
      EXPECT_EQ(producer.try_push({0, {1, 1, 0}}), device::Push::done);
    }
  }
  EXPECT_NO_THROW(stream().synchronize());
  EXPECT_EQ(sums.read()[1], 3u);
  EXPECT_EQ(scheduler.status().done, 3u);
  EXPECT_TRUE(scheduler.reports().empty());
}

TEST_P(SmallDeviceResident, an_idle_limit_ends_it_by_name) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler =
      scheduler_of_sums({.capacity = 16, .producers = 1, .idle_limit = 20ms}, sums);
  scheduler.fill(Jobs{{0, {1, 1, 0}}});
  scheduler.start(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<SourceBroken>(
                  AllOf(HasSubstr("resident scheduler ended"), HasSubstr("idle limit"),
                        HasSubstr("1 accepted: 1 done"), HasSubstr("1 producer is open"))));
  EXPECT_EQ(sums.read()[1], 1u);
}

TEST_P(SmallDeviceResident, the_host_cancels_it_idle_or_not) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler =
      scheduler_of_sums({.capacity = 64, .producers = 1, .inbox = 8}, sums);
  auto producer = scheduler.producer();
  scheduler.start(stream());
  scheduler.cancel();
  EXPECT_NO_THROW(stream().synchronize()) << "idle";
  EXPECT_EQ(producer.try_push({0, {1, 1, 0}}), device::Push::broken);

  // Each job pushes another, up to a count that is never reached, so this would not end.
  scheduler.fill(Jobs{{2, {3, 1, ~0u}}});
  scheduler.start(stream());
  const Deadline deadline;
  while (scheduler.status().done < 3 && !deadline.is_over()) std::this_thread::yield();
  scheduler.cancel();
  EXPECT_NO_THROW(stream().synchronize());
  const device::WorkQueueStatus status = scheduler.status();
  EXPECT_EQ(status.end, device::QueueEnd::cancelled);
  EXPECT_EQ(status.done, sums.read()[3]) << status.message();
  EXPECT_EQ(status.accepted, status.done + status.waiting + status.in_work);

  producer.close();
  scheduler.fill(Jobs(40, {0, {1, 1, 0}}));
  scheduler.start(stream());
  EXPECT_NO_THROW(stream().synchronize()) << "as new";
  EXPECT_EQ(sums.read()[1], 40u);
}

TEST_P(SmallDeviceResident, a_job_for_a_graph_that_is_not_there_is_refused_and_the_others_run) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler =
      scheduler_of_sums({.capacity = 16, .producers = 1, .inbox = 8}, sums);
  const Job<Sum> unknown{7, {0, 1, 0}};
  const auto names_it = ThrowsMessage<BadArgument>(
      AllOf(HasSubstr("graph 7"), HasSubstr("3 were added"), HasSubstr("add")));
  EXPECT_THAT([&] { scheduler.fill(std::span(&unknown, 1)); }, names_it);
  auto producer = scheduler.producer();
  EXPECT_THAT([&] { producer.try_push(unknown); }, names_it);
  producer.close();

  // Device code may name any graph: each of these jobs pushes one for graph 9.
  Jobs jobs(3, {2, {0, 1, 1, 9}});
  jobs.resize(12, {0, {1, 1, 0}});
  scheduler.fill(jobs);
  scheduler.start(stream());
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<SourceBroken>(AllOf(HasSubstr("refused 3 items"), HasSubstr("number 9"),
                                                HasSubstr("15 accepted: 12 done"))));
  EXPECT_EQ(sums.read()[0], 3u);
  EXPECT_EQ(sums.read()[1], 9u) << "those behind them";
  EXPECT_EQ(scheduler.status().refused, 3u);
}

TEST_P(SmallDeviceResident, mistakes_are_refused_with_the_remedy) {
  ResidentScheduler<Sum> empty(device(), schedule_sums, {.capacity = 8});
  try {
    empty.start(stream());
    FAIL() << "nothing was thrown";
  } catch (const BadArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no graph to run"));
  }
  EXPECT_THAT([&] { empty.add(Graph(Device::host(2), "elsewhere")); },
              ThrowsMessage<GraphError>(AllOf(HasSubstr("graph 'elsewhere' is for "),
                                              HasSubstr("build it for the scheduler's device"))));
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler = scheduler_of_sums({.capacity = 8, .producers = 1}, sums);
  auto producer = scheduler.producer();
  producer.close();
  try {
    scheduler.producer();
    FAIL() << "nothing was thrown";
  } catch (const BadArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("producer 2 of 1 declared"));
  }
  scheduler.start(stream());
  stream().synchronize();
  try {
    scheduler.add(Graph(device()));
    FAIL() << "nothing was thrown";
  } catch (const BadArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("once it was started"));
  }
}

}  // namespace
}  // namespace attacca::test
