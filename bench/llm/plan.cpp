// plan.cpp: how long `attacca plan` takes for a million steps: reading a step log, and planning.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "harness.hpp"
#include "planner/plan.hpp"
#include "planner/read_log.hpp"
#include "planner/target.hpp"

namespace bench {

namespace {

using namespace attacca;

constexpr std::size_t kSteps = 1'000'000;
constexpr std::size_t kQuickSteps = 20'000;
constexpr unsigned kSlots = 256;
constexpr unsigned kStepTokens = 8192;
constexpr double kReadGate = 5e6;  // microseconds
constexpr double kPlanGate = 2e6;

/// A step log of ours: nine of ten are decode steps, and prompts are of any length.
std::string step_log(std::size_t steps) {
  std::mt19937 random(1);
  std::string log;
  for (std::size_t step = 1; step <= steps; ++step) {
    const bool is_decode = random() % 10 != 0;
    const double share = static_cast<double>(random() % 10'000) / 10'000;
    const auto tokens =
        static_cast<unsigned>(1 + (is_decode ? kSlots - 1 : kStepTokens - 1) * std::pow(share, 3));
    fmt::format_to(std::back_inserter(log),
                   "{{\"step\":{},\"batch\":\"{}\",\"mode\":\"{}\",\"tokens\":{},\"rows\":1,"
                   "\"size\":{},\"padding\":0,\"hit\":true,\"microseconds\":{:.3f}}}\n",
                   step, is_decode ? "decode" : "mixed", is_decode ? "decode" : "mixed", tokens,
                   tokens, 500 + 0.7 * tokens);
  }
  return log;
}

void run_plan(Run& run) {
  const std::size_t steps = run.is_quick() ? kQuickSteps : kSteps;
  const std::string log = step_log(steps);
  planner::Traffic traffic;
  const auto read = [&] {
    return microseconds([&] {
      traffic = {};
      planner::LogReader(traffic).read(log, "steps.jsonl");
    });
  };
  planner::Sizes sizes;
  const auto plan = [&] {
    return microseconds([&] {
      const planner::Costs costs(traffic, planner::usual_costs(planner::Target::attacca));
      sizes = planner::plan(traffic, costs, planner::rules_of(planner::Target::attacca), {},
                            {.graphs = 32});
    });
  };
  const int samples = run.is_quick() ? 3 : 5;
  const Summary reading = run.interleave("reading", samples, {read})[0];
  const Summary planning = run.interleave("planning", samples, {plan})[0];
  const nlohmann::ordered_json params{
      {"steps", steps}, {"sizes", traffic.decode.counts.size() + traffic.mixed.counts.size()}};
  Row read_row{.name = "read a step log", .params = params, .value = reading};
  Row plan_row{.name = "plan 32 graphs", .params = params, .value = planning};
  read_row.limit = kReadGate;
  plan_row.limit = kPlanGate;
  run.add(read_row);
  run.add(plan_row);
  run.note(fmt::format("a log of {:.0f} MB with steps of {} different sizes, on one core",
                       static_cast<double>(log.size()) / 1e6,
                       traffic.decode.counts.size() + traffic.mixed.counts.size()));
}

const Registered registered{{.name = "plan",
                             .question = "how long does planning from a million steps take?",
                             .needs = Needs::host,
                             .run = run_plan,
                             .why_not = "nothing of it runs on a GPU",
                             .is_engine = true}};

}  // namespace

}  // namespace bench
