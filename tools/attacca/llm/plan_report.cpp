// plan_report.cpp: judges both choices of sizes and prints the figures as a table and as JSON.
#include "llm/plan_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/counted.hpp"

namespace attacca::tool {

namespace {

using namespace planner;

std::string list_text(const std::vector<std::uint32_t>& sizes) {
  return sizes.empty() ? "none" : fmt::format("{}", fmt::join(sizes, ", "));
}

/// "1100 decode steps of 1 to 8 tokens"
std::string range_text(const char* kind, const Steps& steps) {
  if (steps.counts.empty()) return fmt::format("no {} steps", kind);
  const std::uint32_t least = steps.counts.begin()->first;
  std::string text =
      fmt::format("{} of {}", counted(steps.total(), fmt::format("{} step", kind)), least);
  if (steps.largest() > least) text += fmt::format(" to {}", steps.largest());
  return text + " tokens";
}

std::string miss_text(const Costs& costs, Kind kind) {
  return fmt::format("{:.2f} times as long ({})", costs.miss(kind),
                     costs.is_miss_measured(kind) ? "measured" : "assumed");
}

/// The traffic of one kind alone.
Traffic only(const Traffic& traffic, Kind kind) {
  Traffic part;
  part.of(kind) = traffic.of(kind);
  return part;
}

/// The names of traffic that has figures of its own.
std::vector<std::pair<const char*, Traffic>> parts_of(const PlanOutcome& outcome) {
  const Traffic& all = outcome.traffic;
  if (all.decode.counts.empty() || all.mixed.counts.empty())
    return {{has_one_list(outcome.target) ? "all"
             : all.mixed.counts.empty()   ? "decode"
                                          : "mixed",
             all}};
  return {{"decode", only(all, Kind::decode)}, {"mixed", only(all, Kind::mixed)}, {"all", all}};
}

std::string table(const PlanOutcome& outcome, const Costs& costs) {
  std::string text;
  const auto row = [&](const std::string& name, const std::string& today,
                       const std::string& planned) {
    text += fmt::format("{:<20}{:>16}{:>16}\n", name, today, planned);
  };
  row("", "today", "planned");
  row("sizes", fmt::to_string(outcome.today.count()), fmt::to_string(outcome.planned.count()));
  for (const auto& [name, traffic] : parts_of(outcome)) {
    const Rules rules = rules_of(outcome.target);
    const Figures before = judge(traffic, outcome.today, costs, rules);
    const Figures after = judge(traffic, outcome.planned, costs, rules);
    const auto percent = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
    const auto cost = [&](double value) {
      return costs.are_times() ? fmt::format("{:.1f} us", value)
                               : fmt::format("{:.2f} tokens", value);
    };
    row(fmt::format("{} hits", name), percent(before.hit_share()), percent(after.hit_share()));
    row(fmt::format("{} padding", name), percent(before.padding_share()),
        percent(after.padding_share()));
    row(fmt::format("{} step", name), cost(before.cost_per_step()), cost(after.cost_per_step()));
  }
  const auto memory = [&](const Sizes& sizes) {
    return fmt::format("{:.2f} MiB",
                       outcome.graphs.mebibytes(sizes.decode.size(), sizes.mixed.size()));
  };
  const auto time = [&](const Sizes& sizes) {
    return fmt::format("{:.1f} ms",
                       outcome.graphs.milliseconds(sizes.decode.size(), sizes.mixed.size()));
  };
  row("memory", memory(outcome.today), memory(outcome.planned));
  row("build time", time(outcome.today), time(outcome.planned));
  return text;
}

Json sizes_json(const PlanOutcome& outcome, const Sizes& sizes, const Costs& costs) {
  Json json = {{"decode_sizes", sizes.decode},
               {"mixed_sizes", sizes.mixed},
               {"memory_mib", outcome.graphs.mebibytes(sizes.decode.size(), sizes.mixed.size())},
               {"build_ms", outcome.graphs.milliseconds(sizes.decode.size(), sizes.mixed.size())}};
  for (const auto& [name, traffic] : parts_of(outcome)) {
    const Figures figures = judge(traffic, sizes, costs, rules_of(outcome.target));
    json.add(name, {{"hits", figures.hit_share()},
                    {"padding", figures.padding_share()},
                    {"cost_per_step", figures.cost_per_step()}});
  }
  return json;
}

}  // namespace

std::string plan_report(const PlanOutcome& outcome, const Costs& costs) {
  const bool is_one = has_one_list(outcome.target);
  const Traffic& traffic = outcome.traffic;
  std::string text =
      fmt::format("read      {}\n", is_one ? range_text("decode and mixed", traffic.mixed)
                                           : range_text("decode", traffic.decode) + ", " +
                                                 range_text("mixed", traffic.mixed));
  text +=
      fmt::format("from      {}; {} read in {:.2f} s, planned in {:.2f} s\n", outcome.sources,
                  counted(outcome.files, "file"), outcome.seconds_read, outcome.seconds_planned);
  for (const std::string& skipped : outcome.skipped) text += fmt::format("skipped   {}\n", skipped);
  text += fmt::format("for       {}: {} slots, {} tokens a step\n", target_name(outcome.target),
                      outcome.limits.decode, outcome.limits.mixed);
  text +=
      fmt::format("costs     {}\n", costs.are_times() ? "times of the log, and lines between them"
                                                      : "tokens, because the log has no times");
  text += fmt::format("padding   a token of it costs {:g} of a real one\n", costs.padding());
  if (is_one)
    text +=
        fmt::format("misses    without a graph a step takes {}\n", miss_text(costs, Kind::mixed));
  else
    text += fmt::format("misses    without a graph a decode step takes {}, a mixed one {}\n",
                        miss_text(costs, Kind::decode), miss_text(costs, Kind::mixed));
  for (const auto& [name, sizes] :
       {std::pair("today", &outcome.today), std::pair("planned", &outcome.planned)}) {
    if (!is_one) text += fmt::format("{:<10}decode {}\n", name, list_text(sizes->decode));
    text += fmt::format("{:<10}{}{}\n", is_one ? name : "", is_one ? "" : "mixed  ",
                        list_text(sizes->mixed));
  }
  text += "\n" + table(outcome, costs) + "\n";
  for (const std::string& warning : outcome.warnings)
    text += fmt::format("warning   {}\n", warning);
  return text;
}

Json plan_json(const PlanOutcome& outcome, const Costs& costs) {
  return {{"format", target_name(outcome.target)},
          {"decode_steps", outcome.traffic.decode.total()},
          {"mixed_steps", outcome.traffic.mixed.total()},
          {"skipped", outcome.skipped},
          {"unit", costs.are_times() ? "us" : "tokens"},
          {"today", sizes_json(outcome, outcome.today, costs)},
          {"planned", sizes_json(outcome, outcome.planned, costs)},
          {"warnings", outcome.warnings},
          {"seconds_read", outcome.seconds_read},
          {"seconds_planned", outcome.seconds_planned},
          {"settings", settings_text(outcome.target, outcome.planned)}};
}

}  // namespace attacca::tool
