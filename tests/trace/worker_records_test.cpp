// Tests of what persistent workers and the resident scheduler record while a Tracer lives.
#include <gmock/gmock.h>

#include "support/on_each_device.hpp"
#include "support/worker_kernels.hpp"

namespace attacca::test {
namespace {

class TraceOfWorkers : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(TraceOfWorkers);

TEST_P(TraceOfWorkers, each_claim_of_a_worker_is_recorded) {
  constexpr std::size_t kTickets = 40;
  const Buffer<unsigned> hits = buffer(std::vector<unsigned>(kTickets, 0));
  const Buffer<device::TicketCounter> counter(device(), 1);
  const Tracer tracer(device(), TraceLevel::graph);
  stream().fill(counter.data(), 0, counter.bytes());
  hit_workers(Team::block)
      .start(stream(), {counter.data(), kTickets}, {hits.data()}, {.threads = 32, .batch = 1});
  stream().synchronize();
  std::size_t claims = 0;
  const Trace trace = tracer.trace();
  for (const TraceSlice& slice : trace.slices)
    claims += trace.tracks[slice.track].name.starts_with("workers on");
  EXPECT_EQ(claims, kTickets);
}

TEST_P(TraceOfWorkers, a_resident_scheduler_shows_each_job_under_the_node_that_scheduled_it) {
  const Buffer<unsigned> totals = buffer<unsigned>({0, 0});
  const Tracer tracer(device(), TraceLevel::graph);
  ResidentScheduler<Sum> scheduler(device(), schedule_sums, {.capacity = 64});
  Graph job(device(), "sum");
  job.kernel(add_sum, Grid{}, {scheduler.current(), totals.data(), 1, scheduler.queue()});
  const unsigned kind = scheduler.add(std::move(job));
  scheduler.fill(std::vector<Job<Sum>>(5, {kind, {0, 1, 0, kind}}));
  scheduler.start(stream());
  stream().synchronize();
  std::size_t jobs = 0;
  for (const TraceSlice& slice : tracer.trace().slices) {
    if (slice.name != "sum" || slice.arguments.size() != 2) continue;
    ++jobs;
    EXPECT_EQ(slice.arguments[1].first, "launched by");
    EXPECT_THAT(std::get<std::string>(slice.arguments[1].second),
                testing::StartsWith("'schedule next' of "));
  }
  EXPECT_EQ(jobs, 5u);
}

}  // namespace
}  // namespace attacca::test
