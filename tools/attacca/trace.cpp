// `attacca trace`: sums up a trace, compares two, turns one into another format, or records a
// command.
#include <fmt/format.h>
#include <attacca/roofline.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "choice.hpp"
#include "command.hpp"
#include "files.hpp"
#include "input.hpp"
#include "output.hpp"
#include "trace/read_chrome.hpp"
#include "trace/report.hpp"
#include "trace/summary.hpp"
#include "trace_choice.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

constexpr std::size_t kNames = 15;

struct TraceSettings {
  std::vector<std::string> files;
  bool compares = false;
  bool shows_each = false;
  std::size_t names = kNames;
  std::string output;
};

Trace read(const std::string& file) {
  trace::ReadTrace read = trace::read_chrome(read_text("FILE", file), file);
  if (read.skipped > 0)
    fmt::print(stderr, "{}: {} events of other kinds were skipped\n", file, read.skipped);
  return std::move(read.trace);
}

/// `shows_each`: names that differ only in numbers stay apart.
trace::Summary summary_of(const Trace& trace, bool shows_each) {
  trace::Summary summary = trace::summarize(trace);
  if (!shows_each) summary.names = trace::merge_numbers(summary.names);
  return summary;
}

/// The roofs of a device, if they were measured on this machine.
std::optional<Roofs> roofs_called(const std::string& device) {
  try {
    return kept_roofs(device_called(device));
  } catch (const Error&) {  // this machine has no such device
    return {};
  }
}

/// Says how far each node is from what the roofs of its device allow. Returns a line on those.
std::string add_floors(const Trace& trace, trace::Summary& summary, bool shows_each) {
  for (const trace::Usage& process : summary.processes) {
    const std::optional<Roofs> roofs = roofs_called(process.name);
    if (!roofs) continue;
    Roofline found = roofline_of(trace, *roofs);
    if (!shows_each) found = merge_numbers(found);
    for (const PlacedKernel& kernel : found.kernels)
      for (trace::NameTime& name : summary.names)
        if (name.name == kernel.name && kernel.limit != Limit::unknown)
          name.floor_share = kernel.share();
    return fmt::format("\nfloor: the share of the time that the roofs of {} allow\n",
                       roofs->device);
  }
  return "\nno floor: attacca roofline measures the roofs of a device once, and keeps them\n";
}

void run(const TraceSettings& asked) {
  if (!asked.output.empty() && is_recordable(asked.files))
    return record_command(asked.files, asked.output);
  if (asked.files.size() > 1 && is_recordable(asked.files) && !asked.compares)
    throw UsageError(fmt::format("to record {}, name a file with --output", asked.files.front()));
  const std::size_t wanted = asked.compares ? 2 : 1;
  if (asked.files.size() != wanted)
    throw UsageError(fmt::format("{} {} given; {}", asked.files.size(),
                                 asked.files.size() == 1 ? "file is" : "files are",
                                 asked.compares ? "--compare takes two, before and after"
                                                : "give one, or two with --compare"));
  if (!asked.output.empty()) {
    if (asked.compares) throw UsageError("--output writes one trace, and --compare reads two");
    require_writable(asked.output);
  }
  const Trace first = read(asked.files.front());
  if (!asked.output.empty()) return write_trace(first, asked.output);
  trace::Summary summary = summary_of(first, asked.shows_each);
  if (asked.compares) {
    write_out(trace::comparison_report(
        summary, summary_of(read(asked.files.back()), asked.shows_each), asked.names));
    return;
  }
  const std::string floors = add_floors(first, summary, asked.shows_each);
  write_out(trace::summary_report(summary, asked.names) + floors);
}

}  // namespace

void add_trace(Program& program) {
  auto asked = std::make_shared<TraceSettings>();
  Command command = program.command("trace", "Say where the time of a run went");
  command.footer(
      "Reads Chrome's JSON trace format, which attacca run --trace writes and ui.perfetto.dev\n"
      "shows. A device is busy while any of its threads runs a node. A gap is a time in which "
      "none\n"
      "does, with the nodes before and after it.\n"
      "Examples:\n"
      "  attacca run \"Tell me a story.\" --trace run.json\n"
      "  attacca trace run.json\n"
      "  attacca trace run.json -o run.html\n"
      "  attacca trace -o run.html -- run \"Tell me a story.\" -n 60\n"
      "  attacca trace --compare before.json after.json");
  command.words(
      "FILE", asked->files,
      "a trace; - is standard input. Behind a -- with --output: a command to record, run, "
      "serve or bench");
  command.flag("--compare", asked->compares, "two traces: what became slower, faster, longer idle");
  command.flag("--each", asked->shows_each, "a row for each layer, not one for all");
  command.option("-o,--output", file_name(asked->output),
                 "write the trace instead: .html is a page, .pftrace Perfetto's format, any other "
                 "ending JSON");
  command.option("--names", whole_number(asked->names, 1, 1'000'000), "rows of a table, at most")
      .shows_default(fmt::to_string(kNames));
  command.action([asked] { run(*asked); });
}

}  // namespace attacca::tool
