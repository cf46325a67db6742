// plan_live.cpp: the thread that plans from an engine's steps and builds what pays.
#include "llm/plan_live.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace attacca::tool {

namespace {

constexpr std::size_t kMostKept = 1u << 16;

planner::LivePlan plan_for(const llm::Engine& engine, std::uint64_t window) {
  const llm::StepSizes sizes = engine.sizes();
  const llm::EngineOptions& options = engine.options();
  return planner::LivePlan({sizes.decode, sizes.mixed},
                           {.window = window,
                            .graph_milliseconds = kGraphMilliseconds,
                            .limits = {options.slots, options.step_tokens}});
}

}  // namespace

void StepFeed::add(const llm::StepRecord& record) {
  const std::lock_guard lock(mutex_);
  if (steps_.size() == kMostKept) return;
  steps_.push_back({record.is_decode ? planner::Kind::decode : planner::Kind::mixed, record.tokens,
                    record.size, record.microseconds});
  if (steps_.size() == wanted_) filled_.notify_one();
}

std::vector<planner::Step> StepFeed::take(std::size_t count) {
  std::unique_lock lock(mutex_);
  wanted_ = std::min(count, kMostKept);
  filled_.wait(lock, [&] { return is_closed_ || steps_.size() >= wanted_; });
  return is_closed_ ? std::vector<planner::Step>() : std::exchange(steps_, {});
}

void StepFeed::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  filled_.notify_one();
}

PlanLive::PlanLive(llm::Engine& engine, std::shared_ptr<StepFeed> feed, std::uint64_t window,
                   Log log)
    : engine_(engine),
      feed_(std::move(feed)),
      window_(window),
      log_(std::move(log)),
      plan_(plan_for(engine, window)),
      thread_([this] { run(); }) {}

PlanLive::~PlanLive() {
  feed_->close();
  thread_.join();
}

void PlanLive::run() {
  for (;;) {
    const std::vector<planner::Step> steps = feed_->take(window_);
    if (steps.empty()) return;
    for (const planner::Step& step : steps) plan_.add(step);
    try {
      const planner::LivePlan::Verdict verdict = plan_.judge_window();
      if (verdict.gained) log_("plan-live: " + planner::describe_gain(*verdict.gained));
      if (verdict.proposal) change(*verdict.proposal);
    } catch (const std::exception& error) {
      log_(fmt::format("plan-live: the sizes stay: {}", error.what()));
    }
  }
}

void PlanLive::change(const planner::LivePlan::Comparison& proposal) {
  log_("plan-live: " + planner::describe_proposal(proposal));
  const auto began = std::chrono::steady_clock::now();
  engine_.change_sizes({proposal.after.decode, proposal.after.mixed});
  const double milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began).count();
  const auto count = static_cast<double>(proposal.after.count());
  log_(fmt::format("plan-live: {:.0f} graphs were built in {:.0f} ms beside the requests", count,
                   milliseconds));
  plan_.changed_to(proposal.after, milliseconds / count);
}

}  // namespace attacca::tool
