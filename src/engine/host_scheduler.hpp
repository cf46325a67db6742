// host_scheduler.hpp: the scheduler that the host drives. It plans a step, launches its graph,
// plans and launches the next step behind it, and commits the tokens of the first. The policy is in
// schedule/, the device's side in step_runner.hpp. Text is the text worker's matter.
#pragma once

#include <atomic>
#include <attacca/llm.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "driver/scheduler.hpp"
#include "driver/step_turns.hpp"
#include "engine/reply_masks.hpp"
#include "engine/step_log.hpp"
#include "engine/step_runner.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

class HostScheduler final : public driver::Scheduler {
 public:
  /// REQUIRES: the runner was made for these limits and options.
  HostScheduler(std::unique_ptr<StepRunner> runner, const schedule::Limits& limits,
                const llm::EngineOptions& options);

  /// Uses these graphs from the next step on. Thread-safe.
  void offer(std::shared_ptr<StepRunner::Graphs> graphs);

  /// One job for each free slot: the policy need not choose.
  driver::Room room() const override;
  void admit(driver::JobPtr job) override;
  void remove(driver::Job& job) override;
  /// Runs one step to its end. If the next step can be planned already, launches it right behind.
  bool step(std::vector<driver::Outcome>& outcomes) override;
  /// Those that wait for a slot stay.
  std::vector<driver::JobPtr> fail_running() override;
  std::vector<driver::JobPtr> remove_all() override;
  bool is_idle() const override;
  void flush() override { log_.flush(); }

  llm::EngineStats stats() const override;
  std::vector<llm::StepRecord> records(std::size_t most) const override {
    return log_.records(most);
  }
  bool is_usable() noexcept override { return runner_->is_usable(); }
  std::size_t bytes() const override { return state_memory_.size() * sizeof(schedule::Line); }
  driver::StepClock::Running running() override { return driver::StepClock::Running(clock_); }

 private:
  /// A step in flight.
  struct Launched {
    llm::StepRecord record;
    driver::Clock::time_point at;
  };

  void take_offered_graphs();
  std::chrono::microseconds patience() const;
  void take_in_masks(std::vector<driver::Outcome>& outcomes);
  bool launch_next();
  void wait_for_oldest();
  void prepare_slots();
  struct RowUse {
    bool are_kept = false;     // an embedding needs some
    bool need_logits = false;  // somebody else does
  };
  RowUse row_use() const;
  void pool(driver::Job& job, std::uint32_t row);
  driver::Outcome outcome_of(const schedule::Event& event);
  void release(driver::Job& job);

  schedule::Limits limits_;
  llm::EngineOptions options_;
  StepLog log_;
  std::unique_ptr<StepRunner> runner_;
  std::vector<schedule::Line> state_memory_;
  schedule::State state_;
  std::vector<driver::JobPtr> job_of_entry_;   // null where no job is
  std::deque<Launched> launched_;              // the steps in flight, oldest first
  const kernels::Sampled* sampled_ = nullptr;  // by the step that is committed
  driver::StepClock clock_;
  driver::StepTurn turn_;  // held while steps are in flight
  ReplyMasks masks_;
  std::mutex offer_mutex_;
  std::shared_ptr<StepRunner::Graphs> offered_;
  std::atomic<bool> has_offer_ = false;
};

}  // namespace attacca::engine
