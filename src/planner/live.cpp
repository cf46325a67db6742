// live.cpp: decides whether a plan for the last window pays, and tells what the last one gained.
#include "planner/live.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <utility>

namespace attacca::planner {

LivePlan::LivePlan(Sizes today, const LiveOptions& options)
    : options_(options), sizes_(std::move(today)) {}

double LivePlan::Comparison::gain() const {
  return with_before.cost > 0 ? 1 - with_after.cost / with_before.cost : 0;
}

LivePlan::Verdict LivePlan::judge_window() {
  const Traffic window = std::exchange(traffic_, {});
  const Costs costs(window, options_.costs);
  const Rules rules = rules_of(Target::attacca);
  const auto compared = [&](const Sizes& before, const Sizes& after) {
    return Comparison{before, after, judge(window, before, costs, rules),
                      judge(window, after, costs, rules),
                      options_.graph_milliseconds * static_cast<double>(after.count())};
  };
  Verdict verdict;
  if (const std::optional<Sizes> before = std::exchange(before_, std::nullopt))
    verdict.gained = compared(*before, sizes_);
  if (!costs.are_times()) return verdict;
  const Sizes planned =
      plan(window, costs, rules, {}, {.graphs = sizes_.count()}, &options_.limits);
  Comparison proposal = compared(sizes_, planned);
  const double saved_milliseconds = (proposal.with_before.cost - proposal.with_after.cost) / 1e3;
  if (proposal.gain() >= options_.least_gain && saved_milliseconds > proposal.milliseconds)
    verdict.proposal = std::move(proposal);
  return verdict;
}

void LivePlan::changed_to(const Sizes& sizes, double milliseconds) {
  before_ = std::exchange(sizes_, sizes);
  options_.graph_milliseconds = milliseconds;
}

std::string describe(const Sizes& sizes) {
  return fmt::format("decode {}; mixed {}", fmt::join(sizes.decode, ", "),
                     fmt::join(sizes.mixed, ", "));
}

namespace {

std::string figures_text(const LivePlan::Comparison& c) {
  return fmt::format(
      "{:.1f} instead of {:.1f} us a step, padding {:.1f} instead of {:.1f} %, without a graph "
      "{:.1f} instead of {:.1f} %",
      c.with_after.cost_per_step(), c.with_before.cost_per_step(),
      100 * c.with_after.padding_share(), 100 * c.with_before.padding_share(),
      100 * (1 - c.with_after.hit_share()), 100 * (1 - c.with_before.hit_share()));
}

}  // namespace

std::string describe_proposal(const LivePlan::Comparison& proposal) {
  return fmt::format("the last {:.0f} steps would have taken {:.1f} % less time with {} ({})",
                     proposal.with_before.steps, 100 * proposal.gain(), describe(proposal.after),
                     figures_text(proposal));
}

std::string describe_gain(const LivePlan::Comparison& gained) {
  return fmt::format(
      "the last {:.0f} steps took {:.1f} % less time than with the sizes before ({})",
      gained.with_after.steps, 100 * gained.gain(), figures_text(gained));
}

}  // namespace attacca::planner
