// live.hpp: plans from the traffic that an engine has right now. Steps are counted in windows; a
// full window is planned for, and a plan that pays is proposed. The next window tells what it
// gained. It builds nothing and reads no clock: the caller does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/costs.hpp"
#include "planner/plan.hpp"
#include "planner/target.hpp"
#include "planner/traffic.hpp"

namespace attacca::planner {

struct LiveOptions {
  std::uint64_t window = 2000;  // steps
  /// A plan pays if it saves this share of a window's time, and the time to build it too.
  double least_gain = 0.01;
  CostOptions costs = usual_costs(Target::attacca);
  double graph_milliseconds = 0;  // to build one
  Limits limits = {};             // every step up to these keeps its graph
};

/// Not thread-safe.
class LivePlan {
 public:
  LivePlan(Sizes today, const LiveOptions& options);

  void add(const Step& step) { traffic_.add(step); }
  bool is_window_full() const { return traffic_.total() >= options_.window; }

  /// What a window's steps cost with two choices of sizes.
  struct Comparison {
    Sizes before, after;
    Figures with_before, with_after;
    double milliseconds = 0;  // to build, as expected

    /// The share of the time that is saved.
    double gain() const;
  };
  struct Verdict {
    /// What the sizes in use gained over those before them, by the steps of this window; nothing if
    /// they were in use in the window before.
    std::optional<Comparison> gained;
    std::optional<Comparison> proposal;  // sizes that pay; nothing: keep what there is
  };
  /// Judges a full window and begins the next. Without times in it there is no proposal.
  Verdict judge_window();
  /// The proposal's sizes are in use; `milliseconds` is what a graph took to build.
  void changed_to(const Sizes& sizes, double milliseconds);

  const Sizes& sizes() const { return sizes_; }

 private:
  LiveOptions options_;
  Sizes sizes_;
  std::optional<Sizes> before_;  // those that `sizes_` replaced, until their gain is told
  Traffic traffic_;
};

/// "decode 1, 2; mixed 8, 64"
std::string describe(const Sizes& sizes);
/// One line on a proposal, and one on what it turned out to gain.
std::string describe_proposal(const LivePlan::Comparison& proposal);
std::string describe_gain(const LivePlan::Comparison& gained);

}  // namespace attacca::planner
