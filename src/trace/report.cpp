// report.cpp: lays out tables. Names come from files, so what is not printable is escaped.
#include "trace/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/in_quotes.hpp"

namespace attacca::trace {

namespace {

constexpr int kNameWidth = 36;

std::string time(std::int64_t ns) { return duration_text(static_cast<double>(ns)); }

double share(std::int64_t part, std::int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}
std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// A name that may come from anywhere, without quotes.
std::string shown(const std::string& name) {
  const std::string quoted = in_quotes(name);
  return quoted.substr(1, quoted.size() - 2);
}

std::string shown_gap(const Gap& gap) {
  const auto side = [](const std::optional<std::string>& name, const char* none) {
    return name ? in_quotes(*name) : none;
  };
  return fmt::format("{} | {}", side(gap.before, "the trace begins"),
                     side(gap.after, "the trace ends"));
}

std::string usage_table(const std::vector<Usage>& rows, const char* what, std::int64_t wall) {
  std::string text = fmt::format("{:<{}}{:>10}{:>12}{:>9}{:>12}{:>9}\n", what, kNameWidth, "slices",
                                 "busy", "", "idle", "");
  for (const Usage& row : rows)
    text += fmt::format("{:<{}}{:>10}{:>12}{:>9}{:>12}{:>9}\n", shown(row.name), kNameWidth,
                        row.slices, time(row.busy_ns), percent(share(row.busy_ns, wall)),
                        time(row.idle_ns), percent(share(row.idle_ns, wall)));
  return text;
}

/// `last`: the head of a last column, and what stands there.
std::string name_table(const std::vector<NameTime>& names, const char* what, std::int64_t all,
                       std::size_t most, const char* last = "",
                       const std::function<std::string(const NameTime&)>& last_of = {}) {
  const int width = *last == 0 ? 0 : 11;
  std::string text = fmt::format("{:<{}}{:>10}{:>12}{:>9}{:>12}{:>12}{:>{}}\n", what, kNameWidth,
                                 "count", "time", "", "mean", "longest", last, width);
  for (std::size_t at = 0; at < std::min(most, names.size()); ++at) {
    const NameTime& name = names[at];
    text += fmt::format("{:<{}}{:>10}{:>12}{:>9}{:>12}{:>12}{:>{}}\n", shown(name.name), kNameWidth,
                        name.count, time(name.self_ns), percent(share(name.self_ns, all)),
                        duration_text(name.mean_ns()), time(name.longest_ns),
                        last_of ? last_of(name) : "", width);
  }
  if (names.size() > most) text += fmt::format("and {} more\n", names.size() - most);
  return text;
}

std::string node_table(const std::vector<NameTime>& names, std::int64_t all, std::size_t most) {
  const bool has_floors = std::any_of(names.begin(), names.end(),
                                      [](const NameTime& name) { return name.floor_share > 0; });
  if (!has_floors) return name_table(names, "node", all, most);
  return name_table(names, "node", all, most, "floor", [](const NameTime& name) {
    return name.floor_share > 0 ? fmt::format("{:.0f} %", 100 * name.floor_share) : "";
  });
}

std::size_t count_of(const std::vector<NameTime>& names) {
  std::size_t count = 0;
  for (const NameTime& name : names) count += name.count;
  return count;
}

std::string per_token(std::size_t count, std::int64_t tokens) {
  return fmt::format("{:.2f}", static_cast<double>(count) / static_cast<double>(tokens));
}

/// What the program asked of the device.
std::string call_table(const Summary& summary, std::size_t most) {
  std::string text = fmt::format("{} host calls", count_of(summary.calls));
  if (summary.tokens == 0)
    return text + "\n" + name_table(summary.calls, "host call", summary.wall_ns, most);
  return text +
         fmt::format(", {} for each of {} tokens\n",
                     per_token(count_of(summary.calls), summary.tokens), summary.tokens) +
         name_table(summary.calls, "host call", summary.wall_ns, most, "per token",
                    [&](const NameTime& name) { return per_token(name.count, summary.tokens); });
}

/// "+12.5 %", from 0: "new".
std::string change(double before, double after) {
  if (before == 0) return after == 0 ? "0.0 %" : "new";
  return fmt::format("{:+.1f} %", 100 * (after / before - 1));
}

std::string change_row(const std::string& name, const std::string& before, const std::string& after,
                       const std::string& by) {
  return fmt::format("{:<{}}{:>17}{:>17}{:>12}\n", name, kNameWidth, before, after, by);
}
std::string change_row(const std::string& name, std::int64_t before, std::int64_t after) {
  return change_row(name, time(before), time(after),
                    change(static_cast<double>(before), static_cast<double>(after)));
}

/// Per execution, and what that makes of the whole.
std::string names_that(const std::vector<NameChange>& changes, const char* what, std::size_t most,
                       bool (*is_shown)(const NameChange&)) {
  std::string text;
  std::size_t count = 0;
  for (const NameChange& name : changes) {
    if (!is_shown(name) || ++count > most) continue;
    text +=
        fmt::format("{:<{}}{:>17}{:>17}{:>12}{:>14}\n", shown(name.name()), kNameWidth,
                    fmt::format("{} x {}", name.before.count, duration_text(name.before.mean_ns())),
                    fmt::format("{} x {}", name.after.count, duration_text(name.after.mean_ns())),
                    change(name.before.mean_ns(), name.after.mean_ns()),
                    (name.total_ns() < 0 ? "-" : "+") + time(std::abs(name.total_ns())));
  }
  if (count == 0) return "";
  if (count > most) text += fmt::format("and {} more\n", count - most);
  return fmt::format("\n{:<{}}{:>17}{:>17}{:>12}{:>14}\n", what, kNameWidth, "before", "after",
                     "each", "total") +
         text;
}

}  // namespace

std::string duration_text(double ns) {
  if (ns < 999.5) return fmt::format("{:.0f} ns", ns);
  const auto scaled = [](double value, const char* unit) {
    return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, unit);
  };
  if (ns < 999.5e3) return scaled(ns / 1e3, "us");
  if (ns < 999.5e6) return scaled(ns / 1e6, "ms");
  return scaled(ns / 1e9, "s");
}

std::string summary_report(const Summary& summary, std::size_t most_names) {
  std::string text = fmt::format("{} slices in {}, {} of them in loops\n\n", summary.slices,
                                 time(summary.wall_ns), summary.iterations);
  text += usage_table(summary.processes, "device", summary.wall_ns) + "\n";
  text += usage_table(summary.tracks, "track", summary.wall_ns) + "\n";
  text += fmt::format("{:<{}}{:>10}{:>12}  {}\n", "largest gaps", kNameWidth, "at", "length",
                      "between");
  for (const Gap& gap : summary.gaps)
    text += fmt::format("{:<{}}{:>10}{:>12}  {}\n", shown(gap.process), kNameWidth,
                        time(gap.begin_ns), time(gap.length_ns), shown_gap(gap));
  text += "\n" + node_table(summary.names, summary.total_ns(), most_names);
  if (!summary.ranges.empty())
    text += "\n" + name_table(summary.ranges, "range", summary.wall_ns, most_names);
  if (!summary.calls.empty()) text += "\n" + call_table(summary, most_names);
  return text;
}

std::string comparison_report(const Summary& before, const Summary& after, std::size_t most_names) {
  std::string text = change_row("", "before", "after", "change");
  text += change_row("wall time", before.wall_ns, after.wall_ns);
  for (const Usage& process : after.processes) {
    const auto same = std::find_if(before.processes.begin(), before.processes.end(),
                                   [&](const Usage& other) { return other.name == process.name; });
    const Usage was = same == before.processes.end() ? Usage{} : *same;
    text += change_row(shown(process.name) + " busy", was.busy_ns, process.busy_ns);
    text += change_row(shown(process.name) + " idle", was.idle_ns, process.idle_ns);
  }
  const auto longest = [](const Summary& summary) {
    return summary.gaps.empty() ? 0 : summary.gaps.front().length_ns;
  };
  text += change_row("longest gap", longest(before), longest(after));
  if (const std::size_t was = count_of(before.calls), is = count_of(after.calls); was + is > 0)
    text += change_row("host calls", fmt::to_string(was), fmt::to_string(is),
                       change(static_cast<double>(was), static_cast<double>(is)));
  const std::vector<NameChange> changes = compare_names(before, after);
  text += names_that(changes, "slower", most_names, [](const NameChange& name) {
    return name.before.count != 0 && name.after.mean_ns() > name.before.mean_ns();
  });
  text += names_that(changes, "faster", most_names, [](const NameChange& name) {
    return name.after.count != 0 && name.after.mean_ns() < name.before.mean_ns();
  });
  text += names_that(changes, "only before", most_names,
                     [](const NameChange& name) { return name.after.count == 0; });
  text += names_that(changes, "only after", most_names,
                     [](const NameChange& name) { return name.before.count == 0; });
  return text;
}

}  // namespace attacca::trace
