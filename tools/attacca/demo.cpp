// `attacca demo`: shows one loop from every side: its graph, the forms it may take and why, what
// ran, and how long the device was idle in each form.
#include <fmt/core.h>
#include <unistd.h>
#include <attacca/timeline.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "choice.hpp"
#include "command.hpp"
#include "examples/heat.hpp"

namespace attacca::tool {

namespace {

using examples::HeatPlate;

constexpr int kBarColumns = 30;
constexpr std::size_t kMostRows = 8;

/// One run of the loop in one form.
struct FormRun {
  LoopForm form = LoopForm::host_loop;
  unsigned passes = 0;
  double wall_ms = 0;
  std::vector<Span> spans;  // none where the device keeps no records
  std::string why_no_spans;
};

void heading(const std::string& text) {
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  fmt::print("\n{}{}{}\n", is_terminal ? "\033[1m" : "", text, is_terminal ? "\033[0m" : "");
}

void print_indented(const std::string& text) {
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    fmt::print("  {}\n", text.substr(start, end - start));
    start = end + 1;
  }
}

std::string duration(double ms) {
  if (ms >= 1000) return fmt::format("{:.2f} s ", ms / 1000);
  return ms >= 1 ? fmt::format("{:.1f} ms", ms) : fmt::format("{:.1f} us", ms * 1000);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// Milliseconds from launch to end, without a tracer, which would slow it down.
double time_form(const Device& device, HeatPlate& plate, const Loop& loop, LoopForm form) {
  LoopExec exec = loop.instantiate(form);
  const Stream stream(device);
  double ms = 0;
  for (int round = 0; round < 2; ++round) {  // the first one also loads code and wakes workers
    plate.reset();
    const auto start = std::chrono::steady_clock::now();
    exec.launch(stream);
    stream.synchronize();
    ms = milliseconds_since(start);
  }
  return ms;
}

/// The same once more, traced from before the graph was instantiated.
FormRun trace_form(const Device& device, HeatPlate& plate, const Loop& loop, LoopForm form) {
  plate.reset();
  FormRun run;
  run.form = form;
  const Timeline timeline(device);
  run.why_no_spans = timeline.why_not();
  LoopExec exec = loop.instantiate(form);
  const auto before = timeline.is_recording() ? timeline.spans().size() : 0;
  const Stream stream(device);
  const auto start = std::chrono::steady_clock::now();
  exec.launch(stream);
  stream.synchronize();
  run.wall_ms = milliseconds_since(start);
  run.passes = plate.passes.read()[0];
  if (!timeline.is_recording()) return run;
  run.spans = timeline.spans();
  run.spans.erase(run.spans.begin(), run.spans.begin() + static_cast<std::ptrdiff_t>(before));
  if (form != LoopForm::persistent_kernel && run.spans.size() < run.passes) {
    run.spans.clear();
    run.why_no_spans = "the GPU's tracer does not see graphs that the device launches";
  }
  return run;
}

/// The nodes that took longest, with a bar for their share of the time all nodes took.
void print_nodes(const FormRun& run) {
  struct Row {
    std::string name;
    std::size_t times = 0;
    double total_ms = 0;
  };
  std::map<std::string, Row> by_name;
  double all_ms = 0;
  for (const Span& span : run.spans) {
    Row& row = by_name[span.name];
    const double ms = static_cast<double>(span.end_ns - span.start_ns) / 1e6;
    row.name = span.name;
    row.times += 1;
    row.total_ms += ms;
    all_ms += ms;
  }
  std::vector<Row> rows;
  for (const auto& [name, row] : by_name) rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.total_ms > b.total_ms; });
  if (rows.size() > kMostRows) rows.resize(kMostRows);
  fmt::print("  {:<16}{:>8}{:>12}{:>12}{:>8}\n", "node", "times", "total", "each", "share");
  for (const Row& row : rows) {
    const double share = all_ms > 0 ? row.total_ms / all_ms : 0;
    std::string bar = share > 0.5 / kBarColumns ? "  " : "";
    for (int i = 0; i < static_cast<int>(std::lround(share * kBarColumns)); ++i) bar += "█";
    fmt::print("  {:<16}{:>8}{:>12}{:>12}{:>7.0f}%{}\n", row.name.substr(0, 15), row.times,
               duration(row.total_ms), duration(row.total_ms / static_cast<double>(row.times)),
               share * 100, bar);
  }
}

void print_forms(const std::vector<FormRun>& runs) {
  fmt::print("  {:<24}{:>8}{:>12}{:>12}{:>12}{:>12}\n", "form", "passes", "elapsed", "a pass",
             "busy", "idle");
  for (const FormRun& run : runs) {
    const TimelineSummary summary = summarize(run.spans);
    const double busy_ms = static_cast<double>(summary.busy_ns) / 1e6;
    const double idle_ms = std::max(0.0, run.wall_ms - busy_ms);
    fmt::print("  {:<24}{:>8}{:>12}{:>12}", loop_form_name(run.form), run.passes,
               duration(run.wall_ms), duration(run.wall_ms / run.passes));
    if (run.spans.empty())
      fmt::print("  {}\n", run.why_no_spans);
    else
      fmt::print("{:>12}{:>12}{:>7.0f}%\n", duration(busy_ms), duration(idle_ms),
                 100 * idle_ms / run.wall_ms);
  }
}

void run_demo(const std::string& device_name) {
  const Device device = device_called(device_name);
  HeatPlate plate(device);
  const Loop loop = examples::heat_loop(device, plate);
  const LoopPlan plan = loop.plan();

  fmt::print(
      "A plate of {0} x {0} cells on {1}, heated at one edge until no cell changes by more "
      "than\na thousandth of a degree. Only the device knows how many passes that takes.\n",
      HeatPlate::kSide, device.name());
  heading("The graph");
  print_indented(to_text(loop.graph()));
  heading("The forms this loop may take");
  print_indented(plan.explain());

  std::vector<double> wall_ms;
  for (const LoopOption& option : plan.options)
    if (option.is_legal) wall_ms.push_back(time_form(device, plate, loop, option.form));
  std::vector<FormRun> runs;
  for (const LoopOption& option : plan.options)
    if (option.is_legal) {
      runs.push_back(trace_form(device, plate, loop, option.form));
      // The GPU's tracer stretches the gaps between kernels; the host's own records cost nothing.
      if (device.is_cuda()) runs.back().wall_ms = wall_ms[runs.size() - 1];
    }
  const auto taken = std::find_if(runs.begin(), runs.end(),
                                  [&](const FormRun& run) { return run.form == plan.chosen; });
  heading(fmt::format("What ran as a {}", loop_form_name(plan.chosen)));
  if (taken->spans.empty())
    fmt::print("  No records: {}\n", taken->why_no_spans);
  else
    print_nodes(*taken);
  heading("How long the device was idle");
  print_forms(runs);
}

}  // namespace

void add_demo(Program& program) {
  Command command = program.command("demo", "A loop that ends when the data says so, in figures");
  command.footer("Examples:\n  attacca demo\n  attacca demo --device host-serial");
  const auto device = add_device_option(command);
  command.action([device] { run_demo(*device); });
}

}  // namespace attacca::tool
