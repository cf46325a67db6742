// plan_chart.hpp: a picture of the steps of a log, with the sizes that have graphs.
#pragma once

#include <string>

#include "planner/plan.hpp"
#include "planner/traffic.hpp"

namespace attacca::tool {

/// SVG: for each kind of step a histogram by tokens, with lines at the planned sizes and marks
/// below at today's.
std::string plan_chart(const planner::Traffic& traffic, const planner::Sizes& today,
                       const planner::Sizes& planned);

}  // namespace attacca::tool
