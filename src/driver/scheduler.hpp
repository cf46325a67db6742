// scheduler.hpp: what the driver asks of a scheduler. host_scheduler.hpp runs the loop on the host,
// resident_scheduler.hpp on the device. Both follow the policy of schedule/.
#pragma once

#include <attacca/llm.hpp>
#include <vector>

#include "driver/job.hpp"
#include "driver/step_clock.hpp"

namespace attacca::driver {

/// Not thread-safe, but for `records`: the driver's thread calls it, or another in its place.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Whether another job of either kind should be admitted now. Jobs that should not wait outside,
  /// where they keep their order.
  virtual Room room() const = 0;
  /// REQUIRES: there is room for its kind, and the policy would not refuse the job.
  virtual void admit(JobPtr job) = 0;
  /// Takes a job out of the schedule, whatever step computes it. REQUIRES: it is scheduled.
  virtual void remove(Job& job) = 0;
  /// Whether `begin` does anything. Constant.
  virtual bool can_begin() const { return false; }
  /// How long the driver's thread looks for work before it sleeps.
  virtual std::chrono::nanoseconds polls() const { return {}; }
  /// Launches what was admitted to an idle schedule, unless that would have to wait; then `step`
  /// does it. Any thread calls it while the driver's sleeps.
  virtual void begin() {}
  /// Waits for the outcomes of a step, or some time for any, and adds them. False: there was
  /// nothing to do.
  virtual bool step(std::vector<Outcome>& outcomes) = 0;
  /// No job is scheduled and no step is in flight.
  virtual bool is_idle() const = 0;
  /// After an exception: forgets the steps in flight, and takes out and returns the jobs that may
  /// have been in them.
  virtual std::vector<JobPtr> fail_running() = 0;
  /// Takes out and returns all jobs.
  virtual std::vector<JobPtr> remove_all() = 0;
  /// Throws DeviceError if the step log could not be written.
  virtual void flush() = 0;

  virtual llm::EngineStats stats() const = 0;
  virtual std::vector<llm::StepRecord> records(std::size_t most) const = 0;
  /// Memory besides the runner's and its own graphs'.
  virtual std::size_t bytes() const = 0;
  struct GraphBytes {
    std::size_t host = 0;
    std::size_t device = 0;
  };
  virtual GraphBytes graph_bytes() const { return {}; }
  /// Whether the device still works, tried by a copy.
  virtual bool is_usable() noexcept = 0;
  /// The scheduler's time counts, as busy or idle, while one of these lives.
  virtual StepClock::Running running() = 0;
};

}  // namespace attacca::driver
