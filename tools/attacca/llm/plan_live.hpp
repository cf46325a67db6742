// plan_live.hpp: watches an engine's steps, and gives it graphs of other sizes when that pays. A
// thread of its own plans and builds, so neither requests nor steps wait.
#pragma once

#include <attacca/llm.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "planner/live.hpp"

namespace attacca::tool {

/// To build a graph, until one was built: an 8B model on an H200, bench/results/h200/decode.json.
inline constexpr double kGraphMilliseconds = 1.67;

/// The steps on their way from an engine's thread to the planner's. Thread-safe.
class StepFeed {
 public:
  /// Quick: it is called after each step. Steps that nobody takes are dropped from 65,536 on.
  void add(const llm::StepRecord& record);
  /// Waits for at least `count` steps and takes all there are; empty: the feed was closed.
  std::vector<planner::Step> take(std::size_t count);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<planner::Step> steps_;
  std::size_t wanted_ = 1;
  bool is_closed_ = false;
};

/// REQUIRES: the engine outlives it and does not move.
class PlanLive {
 public:
  using Log = std::function<void(const std::string& line)>;
  PlanLive(llm::Engine& engine, std::shared_ptr<StepFeed> feed, std::uint64_t window, Log log);
  ~PlanLive();
  PlanLive(const PlanLive&) = delete;

 private:
  void run();
  void change(const planner::LivePlan::Comparison& proposal);

  llm::Engine& engine_;
  std::shared_ptr<StepFeed> feed_;
  std::uint64_t window_;
  Log log_;
  planner::LivePlan plan_;
  std::thread thread_;
};

}  // namespace attacca::tool
