// report.cpp: prints the results of a run as text for people and as JSON for scripts. Pictures are
// in plot.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "gates.hpp"
#include "harness.hpp"

namespace bench {

using json = nlohmann::ordered_json;

namespace {

/// Three or four significant digits.
std::string number(double value) {
  const double size = value < 0 ? -value : value;
  return fmt::format("{:.{}f}", value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}
std::string number(const std::optional<double>& value) { return value ? number(*value) : ""; }

std::vector<std::string> param_names(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    for (const auto& [key, value] : row.params.items())
      if (std::find(names.begin(), names.end(), key) == names.end()) names.push_back(key);
  return names;
}

/// The limit of the first run, like the figures beside it.
std::string text_of(const Gate& gate, const Row& row) {
  std::string text = fmt::format("{} {} {}", row.is_rate ? ">=" : "<=", number(*row.limit),
                                 gate.is_missed() ? "MISSED" : "held");
  if (gate.runs > 1)
    text += fmt::format("{} in {} of {} runs", gate.is_missed() ? "" : ", missed", gate.runs_missed,
                        gate.runs);
  return text;
}

/// Characters of UTF-8 text, as fmt counts them when it pads.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

using Cells = std::vector<std::string>;

Cells cells_of(const Row& row, const Gate* gate, const std::vector<std::string>& params) {
  Cells cells{row.name};
  for (const std::string& key : params)
    cells.push_back(row.params.contains(key) ? bench::text_of(row.params[key]) : "");
  const auto ratio = row.ratio();
  const auto fraction = row.fraction();
  cells.insert(
      cells.end(),
      {number(row.value.median), number(row.value.p10), number(row.value.p90), row.unit,
       number(row.baseline), ratio ? fmt::format("{:.3f}", *ratio) : "", number(row.floor),
       fraction ? fmt::format("{:.0f} %", *fraction * 100) : "", gate ? text_of(*gate, row) : ""});
  return cells;
}

void print_table(const std::vector<Row>& rows, const Gates& gates) {
  const std::vector<std::string> params = param_names(rows);
  Cells headings{""};
  headings.insert(headings.end(), params.begin(), params.end());
  headings.insert(headings.end(), {"median", "p10", "p90", "unit", "baseline", "ratio", "floor",
                                   "of floor", "gate"});
  std::vector<Cells> table{headings};
  for (std::size_t at = 0; at < rows.size(); ++at)
    table.push_back(cells_of(rows[at], gates.of(at), params));

  std::vector<std::size_t> widths(headings.size(), 0);  // 0: an empty column
  for (std::size_t column = 0; column < widths.size(); ++column) {
    for (std::size_t line = 1; line < table.size(); ++line)
      widths[column] = std::max(widths[column], width_of(table[line][column]));
    if (widths[column]) widths[column] = std::max(widths[column], width_of(headings[column]));
  }
  for (const Cells& cells : table) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column)
      if (widths[column])
        line += column == 0 ? fmt::format("{:<{}}", cells[column], widths[column])
                            : fmt::format("  {:>{}}", cells[column], widths[column]);
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }
}

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::held:
      return "held";
    case Verdict::partly:
      return "partly";
    case Verdict::failed:
      return "did not hold";
  }
  return "";
}

json to_json(const Row& row, const Gate* gate) {
  json line{
      {"name", row.name},           {"params", row.params.is_null() ? json::object() : row.params},
      {"median", row.value.median}, {"p10", row.value.p10},
      {"p90", row.value.p90},       {"unit", row.unit}};
  if (row.is_rate) line["is_rate"] = true;
  if (row.baseline) line["baseline"] = *row.baseline;
  if (const auto ratio = row.ratio()) line["ratio"] = *ratio;
  if (row.floor) line["floor"] = *row.floor;
  if (const auto fraction = row.fraction()) line["fraction"] = *fraction;
  if (gate) {
    line["limit"] = *row.limit;
    line["meets_limit"] = !gate->is_missed();
    if (gate->runs > 1) {
      line["runs"] = gate->runs;
      line["runs_missed"] = gate->runs_missed;
    }
  }
  return line;
}
json to_json(const Finding& finding) {
  return {{"claim", finding.claim},
          {"source", finding.source},
          {"measured", finding.measured},
          {"verdict", text_of(finding.verdict)}};
}
json to_json(const Plot& plot) {
  return {
      {"title", plot.title}, {"x", plot.x}, {"x_label", plot.x_label}, {"y_label", plot.y_label}};
}
template <class Part>
void add_parts(json& result, const char* key, const std::vector<Part>& parts) {
  for (const Part& part : parts) result[key].push_back(to_json(part));
}

}  // namespace

void print_report(const Benchmark& benchmark, const Origin& origin, const Measured& measured) {
  const auto& [run, gates] = measured;
  fmt::print("{}: {}\n{}{}, commit {}, {}{}\n\n", benchmark.name, benchmark.question, origin.device,
             origin.driver.empty() ? "" : ", driver " + origin.driver, origin.commit, origin.date,
             run.is_quick() ? ", quick: a few samples, not to publish" : "");
  print_table(run.rows(), gates);
  if (gates.runs() > 1)
    fmt::print("\nThe figures are those of the first of {} runs.\n", gates.runs());
  for (std::size_t at = 0; at < run.rows().size(); ++at)
    if (const Gate* gate = gates.of(at); gate && gate->is_missed() && gate->known)
      fmt::print("\nknown miss: {}: {}\n", label_of(run.rows()[at].name, run.rows()[at].params),
                 gate->known->reason);
  if (!run.notes().empty()) fmt::print("\n");
  for (const std::string& note : run.notes()) fmt::print("note: {}\n", note);
  for (const Finding& finding : run.findings())
    fmt::print("\nclaim:    {}\nsource:   {}\nmeasured: {}\nverdict:  {}\n", finding.claim,
               finding.source, finding.measured, text_of(finding.verdict));
  fmt::print("\n");
}

json to_json(const Benchmark& benchmark, const Origin& origin, const Measured& measured) {
  const auto& [run, gates] = measured;
  json result{{"bench", benchmark.name},
              {"question", benchmark.question},
              {"device", origin.device},
              {"commit", origin.commit}};
  if (!origin.driver.empty()) result["driver"] = origin.driver;
  result["date"] = origin.date;
  if (run.is_quick()) result["is_quick"] = true;
  result["rows"] = json::array();
  for (std::size_t at = 0; at < run.rows().size(); ++at)
    result["rows"].push_back(to_json(run.rows()[at], gates.of(at)));
  add_parts(result, "findings", run.findings());
  if (!run.notes().empty()) result["notes"] = run.notes();
  add_parts(result, "plots", run.plots());
  return result;
}

}  // namespace bench
