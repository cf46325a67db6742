// worker_kernels.hpp: persistent workers of every team size and the graphs of a resident scheduler,
// for the tests.
#pragma once

#include <attacca/resident.hpp>
#include <attacca/workers.hpp>

namespace attacca::test {

using Counter = device::Atomic<unsigned, device::Scope::gpu>;

/// A tree of work: an item of depth d pushes two of depth d - 1, or counts them itself if the queue
/// is full.
struct Branch {
  unsigned depth;
};
struct CountArgs {
  Counter* items;    // items worked on
  Counter* members;  // threads that took part, summed over all items
};
QueueWorkers<Branch, CountArgs> tree_workers(Team team);

/// Sets `has_begun` and runs until the queue is cancelled. A negative item is done at once.
struct LingeringArgs {
  device::Atomic<unsigned, device::Scope::system>* has_begun;  // in memory that the host sees
};
QueueWorkers<int, LingeringArgs> lingering_workers(Team team);

/// Claims a place and never fills it. One thread.
struct AbandonArgs {
  device::WorkQueueRef<Branch> queue;
};
extern const Kernel<AbandonArgs> abandon_place;

/// hits[ticket] += 1.
struct HitArgs {
  unsigned* hits;
};
TicketWorkers<HitArgs> hit_workers(Team team);

/// A job's parameters.
struct Sum {
  unsigned at;
  unsigned value;
  unsigned more;      // how many jobs follow this one; its own graph pushes them
  unsigned kind = 2;  // of those jobs
};
extern const Scheduler<Sum> schedule_sums;
/// totals[at] += times * value of the job. If the job has `more`, pushes a job of that kind with
/// one less.
struct AddArgs {
  const Sum* job;
  unsigned* totals;
  unsigned times;
  device::WorkQueueRef<Job<Sum>> queue;
};
extern const Kernel<AddArgs> add_sum;

}  // namespace attacca::test
