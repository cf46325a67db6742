// embedder.hpp: embeddings beside a loop that lives on the device. The loop publishes tokens of a
// few bytes, and its next step overwrites the hidden states. So the host runs the steps of
// embeddings, kernel by kernel, while the loop rests; they have pages and buffers of their own,
// which are made for the first one.
#pragma once

#include <attacca/llm.hpp>
#include <list>
#include <memory>
#include <vector>

#include "driver/job.hpp"
#include "engine/host_scheduler.hpp"
#include "engine/step_log.hpp"
#include "engine/step_runner.hpp"

namespace attacca::engine {

/// Not thread-safe.
class Embedder {
 public:
  /// `limits` and `options` are the loop's. Its steps are added to `log`. REQUIRES: runner and log
  /// outlive it.
  Embedder(const StepRunner& runner, const schedule::Limits& limits,
           const llm::EngineOptions& options, StepLog& log);

  bool has_room() const { return waiting_.size() < limits_.requests; }
  bool is_idle() const { return waiting_.empty() && (!scheduler_ || scheduler_->is_idle()); }
  void admit(driver::JobPtr job) { waiting_.push_back(std::move(job)); }
  void remove(driver::Job& job);
  std::vector<driver::JobPtr> remove_all();
  /// Runs one step to its end. If that fails its jobs do, and no others; throws if the device is
  /// lost. REQUIRES: the loop does not run.
  void step(std::vector<driver::Outcome>& outcomes);
  /// Adds what it has counted.
  void add_to(llm::EngineStats& stats) const;

 private:
  bool make_scheduler(std::vector<driver::Outcome>& outcomes);

  const StepRunner& runner_;
  schedule::Limits limits_;
  llm::EngineOptions options_;
  std::list<driver::JobPtr> waiting_;         // not in the schedule yet
  std::unique_ptr<HostScheduler> scheduler_;  // from the first step on
};

}  // namespace attacca::engine
