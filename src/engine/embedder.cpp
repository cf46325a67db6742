// embedder.cpp: a host's scheduler for embeddings alone.
#include "engine/embedder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/outcome.hpp"
#include "engine/sizing.hpp"

namespace attacca::engine {

namespace {

constexpr std::uint32_t kMostSlots = 8;  // short texts share a step

/// Pages for one sequence, as long as the loop's may be; shorter ones share them. Without graphs.
schedule::Limits limits_beside(schedule::Limits limits) {
  limits.slots = std::min(limits.slots, kMostSlots);
  limits.requests = 2 * limits.slots;
  limits.pages = std::min(limits.pages, limits.table_stride());
  limits.decode_sizes = limits.mixed_sizes = {};
  return limits;
}

llm::EngineOptions options_beside(llm::EngineOptions options, StepLog& log) {
  options.scheduler = llm::Scheduler::host;
  options.graphs = llm::GraphMode::off;
  options.overlap = false;  // nothing may be in flight when the loop goes on
  options.step_log.clear();
  options.on_step = [&log](const llm::StepRecord& record) { log.add(record); };
  return options;
}

}  // namespace

Embedder::Embedder(const StepRunner& runner, const schedule::Limits& limits,
                   const llm::EngineOptions& options, StepLog& log)
    : runner_(runner), limits_(limits_beside(limits)), options_(options_beside(options, log)) {}

void Embedder::remove(driver::Job& job) {
  if (job.entry != driver::Job::kNoEntry) return scheduler_->remove(job);
  waiting_.remove_if([&](const driver::JobPtr& waiting) { return waiting.get() == &job; });
}

std::vector<driver::JobPtr> Embedder::remove_all() {
  std::vector<driver::JobPtr> removed(waiting_.begin(), waiting_.end());
  waiting_.clear();
  if (!scheduler_) return removed;
  for (driver::JobPtr& job : scheduler_->remove_all()) removed.push_back(std::move(job));
  return removed;
}

void Embedder::step(std::vector<driver::Outcome>& outcomes) {
  if (!scheduler_ && !make_scheduler(outcomes)) return;
  for (; !waiting_.empty() && scheduler_->room().for_embeddings; waiting_.pop_front())
    scheduler_->admit(waiting_.front());
  try {
    scheduler_->step(outcomes);
  } catch (const std::exception& error) {
    for (const driver::JobPtr& job : scheduler_->fail_running())
      outcomes.push_back(failure_of(job, error.what()));
    if (!scheduler_->is_usable()) throw;
  }
}

/// False: that failed, and so do all that wait.
bool Embedder::make_scheduler(std::vector<driver::Outcome>& outcomes) {
  try {
    scheduler_ = std::make_unique<HostScheduler>(runner_.make_sibling(setup_of(limits_, options_)),
                                                 limits_, options_);
    return true;
  } catch (const std::exception& error) {
    for (const driver::JobPtr& job : waiting_)
      outcomes.push_back(failure_of(
          job, fmt::format("embeddings beside the resident scheduler need memory of their own: {}; "
                           "leave more of it free, or use the host's scheduler",
                           error.what())));
    waiting_.clear();
    return false;
  }
}

void Embedder::add_to(llm::EngineStats& stats) const {
  stats.requests_waiting += waiting_.size();
  if (!scheduler_) return;
  const llm::EngineStats own = scheduler_->stats();
  stats.requests_running += own.requests_running;
  stats.requests_waiting += own.requests_waiting;
  stats.steps += own.steps;
  stats.tokens_prefilled += own.tokens_prefilled;
  stats.tokens_from_cache += own.tokens_from_cache;
  stats.preemptions += own.preemptions;
  stats.evictions += own.evictions;
  stats.pages_in_use += own.pages_in_use;
  stats.pages_cached += own.pages_cached;
}

}  // namespace attacca::engine
