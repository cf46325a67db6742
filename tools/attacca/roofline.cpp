// `attacca roofline`: the roofs of a device, kernels under them, and what would make them faster.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <attacca/roofline.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "choice.hpp"
#include "command.hpp"
#include "files.hpp"
#include "input.hpp"
#include "json.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "roofline/probes.hpp"
#include "roofline_chart.hpp"
#include "trace/read_chrome.hpp"
#include "trace_choice.hpp"
#include "values.hpp"

#if ATTACCA_WITH_LLM
#include "llm/roofline_step.hpp"
#include "model/shapes.hpp"
#endif

namespace attacca::tool {

namespace {

constexpr std::size_t kRows = 15;

struct Asked {
  std::vector<std::string> words;
  std::string device;
#if ATTACCA_WITH_LLM
  RooflineStepChoices step;
  std::vector<Option> step_options;
#endif
  bool measures = false;
  bool tries = false;
  bool is_json = false;
  bool counts = false;
  bool shows_each = false;
  std::string svg_file, html_file;
  std::size_t rows = kRows;
};

Roofs roofs_for(const Asked& asked, const Device& device) {
  ProgressBar bar;
  const auto progress = [&](const char* what, unsigned done, unsigned all) {
    bar.show(what, done, all);
  };
  if (!asked.measures) return roofs_of(device, progress);
  const Roofs roofs = measure_roofs(device, progress);
  keep_roofs(roofs);
  return roofs;
}

Json roofs_json(const Roofs& roofs) {
  Json json = {{"device", roofs.device},
               {"read_bytes_per_second", roofs.read},
               {"copy_bytes_per_second", roofs.copy},
               {"cache_bytes_per_second", roofs.cache}};
  for (int at = 0; at < kArithmetics; ++at)
    json.add(fmt::format("{}_flops_per_second", arithmetic_name(static_cast<Arithmetic>(at))),
             roofs.flops[static_cast<std::size_t>(at)]);
  json.add("launch_us", roofs.launch_us);
  json.add("graph_us", roofs.graph_us);
  json.add("node_us", roofs.node_us);
  json.add("early_node_us", roofs.early_node_us);
  for (std::size_t at = 0; at < kForkWidths.size(); ++at) {
    json.add(fmt::format("branch_of_{}_us", kForkWidths[at]), roofs.branch_us[at]);
    json.add(fmt::format("root_of_{}_us", kForkWidths[at]), roofs.root_us[at]);
  }
  json.add("persistent_us", roofs.persistent_us);
  json.add("step_us", roofs.step_us);
  json.add("barrier_us", roofs.barrier_us);
  json.add("device_launch_us", roofs.device_launch_us);
  json.add("tiny_us", roofs.tiny_us);
  return json;
}

Json to_json(const Roofline& found, const std::vector<Trial>& trials) {
  Json::List kernels, advice, tried;
  for (const PlacedKernel& kernel : found.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"count", kernel.count},
                       {"time_us", kernel.time_us},
                       {"floor_us", kernel.floor_us},
                       {"bytes", kernel.cost.bytes},
                       {"flops", kernel.cost.flops},
                       {"arithmetic", arithmetic_name(kernel.cost.arithmetic)},
                       {"share", kernel.share()},
                       {"limit", limit_name(kernel.limit)},
                       {"is_cached", kernel.is_cached}});
    if (kernel.counted_bytes >= 0) kernels.back().add("counted_bytes", kernel.counted_bytes);
    if (kernel.counted_flops >= 0) kernels.back().add("counted_flops", kernel.counted_flops);
  }
  for (const RoofAdvice& each : found.advice)
    advice.push_back({{"tool", tool_name(each.tool)},
                      {"about", each.about},
                      {"text", each.text},
                      {"gain_us", each.gain_us}});
  for (const Trial& trial : trials) {
    Json json = {{"tool", tool_name(trial.tool)}, {"what", trial.what}};
    if (trial.why_not.empty()) {
      json.add("before_us", trial.before_us);
      json.add("predicted_us", trial.predicted_us);
      json.add("measured_us", trial.measured_us);
    } else {
      json.add("why_not", trial.why_not);
    }
    tried.push_back(json);
  }
  return {{"roofs", roofs_json(found.roofs)},
          {"subject", found.subject},
          {"timed_by", found.timed_by},
          {"bytes_not_counted", found.bytes_not_counted},
          {"flops_not_counted", found.flops_not_counted},
          {"total_us", found.total_us},
          {"kernels", kernels},
          {"advice", advice},
          {"tried", tried}};
}

void report(const Asked& asked, const Roofline& each, const std::vector<Trial>& trials) {
  const Roofline found = asked.shows_each ? each : merge_numbers(each);
  if (!asked.svg_file.empty()) write_file(asked.svg_file, roofline_svg(found));
  if (!asked.html_file.empty()) write_file(asked.html_file, roofline_html(found, trials));
  if (asked.is_json) {
    write_out(to_json(found, trials).text(2) + "\n");
    return;
  }
  write_out(to_text(found, asked.rows));
  const auto impossible =
      std::count_if(found.kernels.begin(), found.kernels.end(), [](const PlacedKernel& kernel) {
        return kernel.limit == Limit::unknown && kernel.share() > 1;
      });
  if (impossible > 0)
    write_out(fmt::format(
        "kernels that are faster than the roofs allow: {}; the cost they declare is an upper "
        "bound,\nor the roofs were measured while the machine was busy (--measure)\n",
        impossible));
  if (!trials.empty()) write_out("\n" + to_text(trials));
}

/// Throws Error if a probe landed elsewhere, or a trial was predicted badly.
void run_probes(const Asked& asked, const Device& device) {
  const Roofs roofs = roofs_for(asked, device);
  const roofline::Probes probes(device);
  const Graph graph = probes.graph();
  const Roofline found = roofline_of(graph, roofs, asked.counts);
  std::vector<Trial> trials;
  if (asked.tries)
    for (const Graph& each : {graph, probes.chain(), probes.lonely()})
      for (Trial& trial : try_advice(each, roofline_of(each, roofs), &roofline::tiny_program())) {
        trial.what += fmt::format(", {}", each.name());
        trials.push_back(std::move(trial));
      }
  report(asked, found, trials);
  std::vector<std::string> wrong = roofline::misplaced(found, roofline::expected_places());
  for (std::string& sentence : roofline::mispredicted(trials)) wrong.push_back(std::move(sentence));
  for (const std::string& sentence : wrong) fmt::print(stderr, "{}\n", sentence);
  if (!wrong.empty())
    throw Error(
        "the probes are not where they should be; the machine must have nothing else to do, and "
        "--measure measures its roofs anew");
}

/// Reads it before roofs are measured, because it may be wrong. `name`: for the report.
void run_trace(const Asked& asked, const Device& device, const std::string& file,
               const std::string& name) {
  if (asked.tries)
    throw UsageError("--try runs a graph, and a trace is over; use it with step or probes");
  if (asked.counts)
    throw UsageError("--counters runs a graph, and a trace is over; use it with step or probes");
  const trace::ReadTrace read = trace::read_chrome(read_text("TRACE", file), file);
  if (std::none_of(read.trace.slices.begin(), read.trace.slices.end(), [](const TraceSlice& slice) {
        return slice.cost.flops > 0 || slice.cost.bytes > 0;
      }))
    throw BadArgument(fmt::format(
        "'{}' has no kernel with a cost; record one with attacca run --device host --trace FILE",
        name));
  report(asked, roofline_of(read.trace, roofs_for(asked, device), name), {});
}

/// A file for the time of a command.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("attacca-roofline-{}.json", ::getpid())) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

void run_command(const Asked& asked, const Device& device) {
  if (asked.is_json)
    throw UsageError("--json prints nothing else; record with --trace FILE, and place the file");
  const TemporaryFile file;
  std::vector<std::string> words = asked.words;
  words.insert(words.end(), {"--device", device.name()});
  record_command(words, file.path());
  write_out("\n");
  run_trace(asked, device, file.path(), fmt::format("{}", fmt::join(asked.words, " ")));
}

void run(const Asked& asked) {
  for (const std::string& file : {asked.svg_file, asked.html_file})
    if (!file.empty()) require_writable(file);
  const std::string what = asked.words.empty() ? "" : asked.words.front();
  const bool is_step = what == "step";
#if ATTACCA_WITH_LLM
  for (const Option& option : asked.step_options)
    if (option.is_given() && !is_step)
      throw UsageError("--shape, --batch, --context and --layers are for `attacca roofline step`");
#else
  if (is_step) throw Error("this attacca was built without the LLM engine, so it has no steps");
#endif
  if (asked.words.size() > 1 && !is_recordable(asked.words))
    throw UsageError(
        fmt::format("'{}' stands behind '{}' and would be ignored", asked.words[1], what));
  if (what.empty() &&
      (asked.tries || asked.counts || !asked.svg_file.empty() || !asked.html_file.empty()))
    throw UsageError(
        "--try, --counters, --svg and --html need kernels: name step, probes or a trace");
  const Device device = device_called(asked.device);
  if (what.empty()) {
    const Roofs roofs = roofs_for(asked, device);
    write_out(asked.is_json ? roofs_json(roofs).text(2) + "\n" : to_text(roofs));
  } else if (what == "probes") {
    run_probes(asked, device);
  } else if (is_recordable(asked.words)) {
    run_command(asked, device);
#if ATTACCA_WITH_LLM
  } else if (is_step) {
    const RooflineStep step(asked.step, device);
    const Graph& graph = step.graph();
    const Roofline found = roofline_of(graph, roofs_for(asked, device), asked.counts);
    report(asked, found, asked.tries ? try_advice(graph, found) : std::vector<Trial>());
#endif
  } else {
    run_trace(asked, device, what, what);
  }
}

#if ATTACCA_WITH_LLM
void add_step_options(Command& command, Asked& asked) {
  const auto add = [&](const char* name, const Value& value, const char* help) {
    return asked.step_options.emplace_back(
        command.option(name, value, help).group("Options of a step"));
  };
  RooflineStepChoices& step = asked.step;
  add("--shape", one_of(model::shape_names(), step.shape), "The model's sizes")
      .shows_default(step.shape);
  add("--batch", whole_number(step.batch, 1, 1024), "Sequences that decode one token each")
      .shows_default(fmt::to_string(step.batch));
  add("--context", whole_number(step.context, 1, 131072), "Tokens of each sequence")
      .shows_default(fmt::to_string(step.context));
  add("--layers", whole_number(step.layers, 1, 1024), "Only the first layers; all if not given");
}
#endif

}  // namespace

void add_roofline(Program& program) {
  Command command = program.command("roofline", "Say which tool would make kernels faster");
  command.footer(
      "Measures once what the device can do, and keeps it. Then it places each kernel by the\n"
      "cost it declares and the time it took, and predicts what each tool would save.\n"
      "docs/roofline.md explains the figures.\n"
      "Examples:\n"
      "  attacca roofline                       the roofs alone\n"
      "  attacca roofline -- run \"Tell me a story.\" -n 60\n"
      "  attacca run \"Tell me a story.\" --device host --trace run.json\n"
      "  attacca roofline run.json --device host --html run.html\n"
      "  attacca roofline step --shape llama-1b --layers 4 --try\n"
      "  attacca roofline probes --measure      kernels that sit at known places");
  const auto asked = std::make_shared<Asked>();
  command.words("WHAT", asked->words,
                "A trace to place; step: a decode step with random weights; probes; or, behind a "
                "--, a command to record and place");
  command.flag("--try", asked->tries, "apply what can be applied, and compare with the prediction");
  command.flag("--each", asked->shows_each, "a row for each layer, not one for all");
  command.flag("--measure", asked->measures, "measure the roofs again");
  command.flag("--counters", asked->counts,
               "of step and probes on a GPU: compare the bytes and FLOPs that kernels declare with "
               "what its counters say");
  command.option("--svg", file_name(asked->svg_file),
                 "draw the kernels under the roofs into a file");
  command.option("--html", file_name(asked->html_file), "write chart and tables as a page");
  command.flag("--json", asked->is_json, "print everything as JSON");
  command.option("--rows", whole_number(asked->rows, 1, 1'000'000), "rows of a table, at most")
      .shows_default(fmt::to_string(kRows));
#if ATTACCA_WITH_LLM
  add_step_options(command, *asked);
#endif
  const auto device = add_device_option(command);
  command.action([asked, device] {
    asked->device = *device;
    run(*asked);
  });
}

}  // namespace attacca::tool
