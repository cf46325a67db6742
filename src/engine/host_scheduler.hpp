// host_scheduler.hpp: the scheduler that the host drives. It plans a step, launches its graph,
// plans and launches the next step behind it, and commits the tokens of the first. The policy is in
// schedule/, the device's side in step_runner.hpp. Text is the text worker's matter.
#pragma once

#include <attacca/llm.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "engine/job.hpp"
#include "engine/step_clock.hpp"
#include "engine/step_log.hpp"
#include "engine/step_runner.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

/// Not thread-safe, but for `records`: the driver's thread calls it.
class HostScheduler {
 public:
  /// REQUIRES: the runner was made for these limits and options.
  HostScheduler(std::unique_ptr<StepRunner> runner, const schedule::Limits& limits,
                const llm::EngineOptions& options);

  /// Whether another job could get a slot in the next step. Jobs that cannot should wait outside,
  /// where they keep their order.
  bool has_room() const;
  /// REQUIRES: has_room(), and the policy would not refuse the job.
  void admit(JobPtr job);
  /// Takes a job out of the schedule, whatever step computes it. REQUIRES: it is scheduled.
  void remove(Job& job);
  /// Runs one step to its end and adds its outcomes. If the next step can be planned already,
  /// launches it right behind. False: there was nothing to do.
  bool step(std::vector<Outcome>& outcomes);
  /// After an exception: forgets the steps in flight, and takes out and returns the jobs that had a
  /// slot. Those that wait for one stay.
  std::vector<JobPtr> fail_running();
  /// Takes out and returns all jobs.
  std::vector<JobPtr> remove_all();
  /// No job is scheduled and no step is in flight.
  bool is_idle() const;
  /// Its time counts, as busy or idle, while one of these lives.
  StepClock::Running running() { return StepClock::Running(clock_); }
  /// Whether the device still works, tried by a copy.
  bool is_usable() noexcept { return runner_->is_usable(); }
  /// Throws DeviceError if the step log could not be written.
  void flush() { log_.flush(); }

  llm::EngineStats stats() const;
  std::vector<llm::StepRecord> records() const { return log_.records(); }
  const StepRunner& runner() const { return *runner_; }

 private:
  /// A step in flight.
  struct Launched {
    llm::StepRecord record;
    Clock::time_point at;
  };

  bool launch_next();
  void wait_for_oldest();
  llm::StepRecord record_of(const schedule::Counts& counts) const;
  void prepare_placed_slots();
  Outcome outcome_of(const schedule::Event& event);
  void release(Job& job);

  schedule::Limits limits_;
  llm::EngineOptions options_;
  StepLog log_;
  std::unique_ptr<StepRunner> runner_;
  std::vector<schedule::Line> state_memory_;
  schedule::State state_;
  std::vector<JobPtr> job_of_entry_;           // null where no job is
  std::deque<Launched> launched_;              // the steps in flight, oldest first
  const kernels::Sampled* sampled_ = nullptr;  // by the step that is committed
  StepClock clock_;
};

}  // namespace attacca::engine
