// Tests of the resident scheduler: jobs from a queue run as graphs, one after another, without the
// host; more come from the host and from the jobs themselves.
#include <gmock/gmock.h>

#include <thread>

#include "support/on_each_device.hpp"
#include "support/worker_kernels.hpp"

namespace attacca::test {
namespace {

using testing::HasSubstr;
using Jobs = std::vector<Job<Sum>>;

class SmallDeviceResident : public OnEachDevice {
 protected:
  /// Three kinds of jobs: 0 adds its value, 1 adds it twice, 2 adds it and may lead to others.
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
    while (!producer.try_push({0, {2, 1, 0}})) std::this_thread::yield();
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

TEST_P(SmallDeviceResident, a_job_for_a_graph_that_is_not_there_stops_it) {
  const Buffer<unsigned> sums = totals();
  ResidentScheduler<Sum> scheduler = scheduler_of_sums({.capacity = 8}, sums);
  scheduler.fill(Jobs{{0, {0, 1, 0}}, {7, {0, 1, 0}}, {0, {0, 1, 0}}});
  scheduler.start(stream());
  stream().synchronize();
  EXPECT_EQ(sums.read()[0], 1u);
}

TEST_P(SmallDeviceResident, mistakes_are_refused_with_the_remedy) {
  ResidentScheduler<Sum> empty(device(), schedule_sums, {.capacity = 8});
  try {
    empty.start(stream());
    FAIL() << "nothing was thrown";
  } catch (const BadArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("no graph to run"));
  }
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
