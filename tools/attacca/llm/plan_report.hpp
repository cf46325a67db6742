// plan_report.hpp: what `attacca plan` prints: the sizes of today and those planned, side by side.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "json.hpp"
#include "planner/costs.hpp"
#include "planner/plan.hpp"
#include "planner/target.hpp"
#include "planner/traffic.hpp"

namespace attacca::tool {

/// What was read, and the sizes before and after.
struct PlanOutcome {
  planner::Target target = planner::Target::attacca;
  planner::Traffic traffic;
  std::size_t files = 0;
  std::string sources;               // "attacca, vLLM"
  std::vector<std::string> skipped;  // a reason each
  planner::Limits limits;
  planner::GraphCosts graphs;
  planner::Sizes today;
  planner::Sizes planned;
  std::vector<std::string> warnings;
  double seconds_read = 0;
  double seconds_planned = 0;
};

std::string plan_report(const PlanOutcome& outcome, const planner::Costs& costs);
Json plan_json(const PlanOutcome& outcome, const planner::Costs& costs);

}  // namespace attacca::tool
