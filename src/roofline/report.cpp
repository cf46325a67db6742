// report.cpp: roofs, places and trials as tables for a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "core/in_quotes.hpp"
#include "graph/print.hpp"
#include "roofline/place.hpp"

namespace attacca {

namespace {

using roofline::time_text;

std::string rate_text(double rate, const char* unit) {
  if (rate <= 0) return "not measured";
  for (const auto& [factor, prefix] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}})
    if (rate >= factor) return fmt::format("{:.3g} {}{}", rate / factor, prefix, unit);
  return fmt::format("{:.3g} {}", rate, unit);
}

/// A name that may come from a file, without quotes, and no longer than its column.
std::string shown(const std::string& name, std::size_t most) {
  const std::string quoted = in_quotes(name);
  std::string text = quoted.substr(1, quoted.size() - 2);
  if (text.size() > most) text.resize(most);
  return text;
}

/// What kernels declare, and what the device's counters say.
std::string counted_text(const Roofline& found, std::size_t most, const char* what,
                         const std::string& why_not, double Cost::*declared,
                         double PlacedKernel::*counted, std::string (*text_of)(double)) {
  if (!why_not.empty()) return fmt::format("\n{} not counted: {}\n", what, why_not);
  std::string text;
  for (std::size_t at = 0; at < std::min(most, found.kernels.size()); ++at) {
    const PlacedKernel& kernel = found.kernels[at];
    const double said = kernel.cost.*declared, seen = kernel.*counted;
    if (seen < 0 || said <= 0) continue;
    if (text.empty())
      text = fmt::format("\n{:<28}{:>14}{:>14}{:>12}\n", what, "declared", "counted", "difference");
    text += fmt::format("{:<28}{:>14}{:>14}{:>+10.1f} %\n", shown(kernel.name, 27), text_of(said),
                        text_of(seen), 100 * (seen / said - 1));
  }
  return text;
}

std::string flops_text(double flops) { return graph::quantity_text(flops, "FLOP"); }

}  // namespace

std::string to_text(const Roofs& roofs) {
  std::string text = fmt::format("roofs of {}\n", roofs.device);
  const auto row = [&](const char* name, const std::string& value, const char* what) {
    text += fmt::format("  {:<16}{:>14}  {}\n", name, value, what);
  };
  const auto by_width = [&](const char* name, const ByWidth& us, const char* what) {
    for (std::size_t at = 0; at < us.size(); ++at)
      row(fmt::format("{}, of {}", name, kForkWidths[at]).c_str(), time_text(us[at]), what);
  };
  row("read", rate_text(roofs.read, "B/s"), "memory, read only");
  row("copy", rate_text(roofs.copy, "B/s"), "memory, read and written");
  row("cache", rate_text(roofs.cache, "B/s"), "L2, read only");
  for (int at = 0; at < kArithmetics; ++at) {
    const auto arithmetic = static_cast<Arithmetic>(at);
    row(arithmetic_name(arithmetic), rate_text(roofs.flops[static_cast<std::size_t>(at)], "FLOP/s"),
        arithmetic == Arithmetic::fp32 ? "multiply and add" : "matrix units");
  }
  row("launch", time_text(roofs.launch_us), "a kernel launched on a stream");
  row("graph", time_text(roofs.graph_us), "a launch of a graph, without its nodes");
  row("node", time_text(roofs.node_us), "a tiny kernel behind another in a graph");
  row("early node", time_text(roofs.early_node_us), "the same behind a programmatic edge");
  by_width("branch", roofs.branch_us, "each further branch of a fork");
  by_width("root", roofs.root_us, "each further node of a graph without edges");
  row("persistent", time_text(roofs.persistent_us), "a launch of a persistent kernel");
  row("step", time_text(roofs.step_us), "a tiny kernel as a step of it");
  row("barrier", time_text(roofs.barrier_us), "of a persistent kernel's blocks");
  row("device launch", time_text(roofs.device_launch_us), "a graph that relaunches itself");
  return text;
}

std::string to_text(const Roofline& found, std::size_t most) {
  std::string text = fmt::format("{}: {} on {}, kernels timed by {}\n\n", shown(found.subject, 60),
                                 time_text(found.total_us), found.roofs.device, found.timed_by);
  text += fmt::format("{:<28}{:>7}{:>11}{:>11}{:>11}{:>11}{:>9}  {}\n", "kernel", "count", "time",
                      "floor", "bytes", "FLOP/B", "of roof", "bound by");
  for (std::size_t at = 0; at < std::min(most, found.kernels.size()); ++at) {
    const PlacedKernel& kernel = found.kernels[at];
    text += fmt::format(
        "{:<28}{:>7}{:>11}{:>11}{:>11}{:>11.3g}{:>7.0f} %  {}{}\n", shown(kernel.name, 27),
        kernel.count, time_text(kernel.time_us), time_text(kernel.floor_us),
        roofline::bytes_text(kernel.cost.bytes), kernel.intensity(), 100 * kernel.share(),
        kernel.is_cached && kernel.limit == Limit::memory ? "cache" : limit_name(kernel.limit),
        kernel.limit == Limit::memory || kernel.limit == Limit::compute
            ? (kernel.share() >= roofline::kNear ? ", near the roof" : ", below the roof")
            : "");
  }
  if (found.kernels.size() > most)
    text += fmt::format("and {} more\n", found.kernels.size() - most);
  if (found.kernels.empty()) text += "no kernel declared a cost\n";
  text += counted_text(found, most, "bytes of memory", found.bytes_not_counted, &Cost::bytes,
                       &PlacedKernel::counted_bytes, &roofline::bytes_text);
  text += counted_text(found, most, "FLOPs", found.flops_not_counted, &Cost::flops,
                       &PlacedKernel::counted_flops, &flops_text);
  text += "\nadvice, and the time that it should save\n";
  const std::size_t rows = std::min(most, found.advice.size());
  for (std::size_t at = 0; at < rows; ++at) {
    const RoofAdvice& advice = found.advice[at];
    text += fmt::format("{:>2}. {}{}{}\n", at + 1, tool_name(advice.tool),
                        advice.about.empty() ? "" : fmt::format(", '{}'", shown(advice.about, 40)),
                        ": " + advice.text);
  }
  if (found.advice.size() > rows) text += fmt::format("and {} more\n", found.advice.size() - rows);
  if (found.advice.empty()) text += "none\n";
  return text;
}

std::string to_text(const std::vector<Trial>& trials) {
  std::string text = fmt::format("{:<66}{:>11}{:>11}{:>11}{:>9}\n", "tried", "before", "predicted",
                                 "measured", "error");
  for (const Trial& trial : trials)
    if (trial.why_not.empty())
      text += fmt::format("{:<66}{:>11}{:>11}{:>11}{:>+7.0f} %\n", trial.what,
                          time_text(trial.before_us), time_text(trial.predicted_us),
                          time_text(trial.measured_us), 100 * trial.error());
  for (const Trial& trial : trials)
    if (!trial.why_not.empty())
      text += fmt::format("not tried: {}: {}\n", trial.what, trial.why_not);
  return text;
}

}  // namespace attacca
