// `attacca plan`: which step sizes should have graphs, from the logs of an engine.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "files.hpp"
#include "input.hpp"
#include "llm/plan_chart.hpp"
#include "llm/plan_live.hpp"
#include "llm/plan_report.hpp"
#include "output.hpp"
#include "planner/costs.hpp"
#include "planner/plan.hpp"
#include "planner/read_log.hpp"
#include "planner/target.hpp"
#include "schedule/default_sizes.hpp"
#include "values.hpp"

namespace attacca::tool {

namespace {

using namespace planner;

// The defaults of the engine on a host.
constexpr std::uint32_t kSlots = 8;
constexpr std::uint32_t kStepTokens = 512;
constexpr std::uint32_t kDecodeStepTokens = 128;
constexpr std::size_t kMostGraphs = 256;
// One of 14 graphs of an 8B model on an H200: bench/results/h200/decode.json.
constexpr double kGraphMebibytes = 0.089;

struct PlanSettings {
  std::vector<std::string> logs;
  std::string decode_steps, mixed_steps;
  Target target = Target::attacca;
  std::optional<std::size_t> count;
  std::optional<double> memory;
  bool covers = false;
  std::optional<std::uint32_t> slots, step_tokens;
  std::uint32_t decode_step_tokens = kDecodeStepTokens;
  std::vector<std::uint32_t> decode_sizes, mixed_sizes;
  std::optional<double> padding_cost, miss_cost;
  std::vector<double> graph_memory, graph_time;
  std::string settings_file, svg_file;
  bool is_json = false;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

void read_all(const PlanSettings& asked, PlanOutcome& outcome) {
  if (asked.logs.empty() && asked.decode_steps.empty() && asked.mixed_steps.empty())
    throw UsageError(
        "there is nothing to plan from; name a step log (attacca run --step-log FILE writes one), "
        "or give --decode-steps or --mixed-steps");
  LogReader reader(outcome.traffic);
  for (const std::string& log : asked.logs) reader.read(read_text("LOG", log), log);
  outcome.files = asked.logs.size();
  for (std::size_t source = 0; source < kSources; ++source)
    if (reader.steps()[source] > 0)
      outcome.sources += (outcome.sources.empty() ? "" : ", ") +
                         std::string(source_name(static_cast<Source>(source)));
  for (std::size_t why = 0; why < kSkips; ++why)
    if (const LogReader::Skipped& skipped = reader.skipped()[why]; skipped.count > 0)
      outcome.skipped.push_back(fmt::format(
          "{}: {} (first: {})", skip_reason(static_cast<Skip>(why)), skipped.count, skipped.first));
  const auto by_hand = [&](const char* option, const std::string& text, Kind kind) {
    if (text.empty()) return;
    try {
      read_distribution(text, kind, outcome.traffic);
    } catch (const BadArgument& error) {
      throw UsageError(fmt::format("{}: {}", option, error.what()));
    }
    outcome.sources += (outcome.sources.empty() ? "" : ", ") + std::string(option);
  };
  by_hand("--decode-steps", asked.decode_steps, Kind::decode);
  by_hand("--mixed-steps", asked.mixed_steps, Kind::mixed);
  if (outcome.traffic.total() == 0)
    throw BadArgument(fmt::format(
        "no step was found in {}: skipped {}; the log must be one of attacca run --step-log, of "
        "TensorRT-LLM's iterations, or of vllm serve --cudagraph-metrics",
        fmt::join(asked.logs, ", "),
        outcome.skipped.empty() ? "nothing" : fmt::format("{}", fmt::join(outcome.skipped, ", "))));
}

/// The limit that was given, or the engine's default if no step is larger.
std::uint32_t limit_of(const char* option, const std::optional<std::uint32_t>& given,
                       std::uint32_t least, const char* kind, const Steps& steps) {
  if (given && *given < steps.largest())
    throw BadArgument(fmt::format(
        "{} is {}, and a {} step of {} tokens was read; give that of the engine which wrote the "
        "log, or leave it out",
        option, *given, kind, steps.largest()));
  return given.value_or(std::max(least, steps.largest()));
}

void check_sizes(const char* option, const std::vector<std::uint32_t>& sizes) {
  for (std::size_t at = 1; at < sizes.size(); ++at)
    if (sizes[at] <= sizes[at - 1])
      throw UsageError(fmt::format("{} has {} after {}; give each once, in ascending order", option,
                                   sizes[at], sizes[at - 1]));
}

Sizes todays_sizes(const PlanSettings& asked, const Limits& limits) {
  check_sizes("--decode-sizes", asked.decode_sizes);
  check_sizes("--mixed-sizes", asked.mixed_sizes);
  Sizes sizes{asked.decode_sizes, asked.mixed_sizes};
  if (has_one_list(asked.target)) {
    if (!sizes.decode.empty())
      throw UsageError(
          fmt::format("--decode-sizes: {} has one list for all steps; give it as --mixed-sizes",
                      target_name(asked.target)));
    if (sizes.mixed.empty()) sizes.mixed = vllm_default_sizes(limits);
    return sizes;
  }
  if (sizes.decode.empty()) sizes.decode = schedule::default_decode_sizes(limits.decode);
  if (sizes.mixed.empty())
    sizes.mixed = schedule::default_mixed_sizes(limits.mixed, asked.decode_step_tokens);
  return sizes;
}

/// One value for both kinds, or one for each.
std::pair<double, double> both(const char* option, const std::vector<double>& values,
                               double usual) {
  if (values.size() > 2)
    throw UsageError(
        fmt::format("{} has {} values; give one, or one for decode and one for mixed "
                    "graphs",
                    option, values.size()));
  if (values.empty()) return {usual, usual};
  return {values.front(), values.back()};
}

GraphCosts graph_costs(const PlanSettings& asked) {
  const auto [decode_memory, mixed_memory] =
      both("--graph-memory", asked.graph_memory, kGraphMebibytes);
  const auto [decode_time, mixed_time] = both("--graph-time", asked.graph_time, kGraphMilliseconds);
  if (!has_one_list(asked.target)) return {decode_memory, mixed_memory, decode_time, mixed_time};
  // Each size is captured twice.
  return {0, decode_memory + mixed_memory, 0, decode_time + mixed_time};
}

void run(const PlanSettings& asked) {
  for (const std::string& file : {asked.settings_file, asked.svg_file})
    if (!file.empty()) require_writable(file);
  PlanOutcome outcome;
  outcome.target = asked.target;
  const Stopwatch reading;
  read_all(asked, outcome);
  outcome.seconds_read = reading.seconds();
  outcome.limits = {
      limit_of("--slots", asked.slots, kSlots, "decode", outcome.traffic.decode),
      limit_of("--step-tokens", asked.step_tokens, kStepTokens, "mixed", outcome.traffic.mixed)};
  if (outcome.limits.decode > outcome.limits.mixed) {
    if (asked.step_tokens && asked.slots)
      throw UsageError(fmt::format(
          "--step-tokens {0} is less than --slots {1}, and a step must hold a token of each; use "
          "--step-tokens {1}, or --slots {0}",
          *asked.step_tokens, *asked.slots));
    if (asked.step_tokens)
      throw BadArgument(fmt::format(
          "--step-tokens {} is less than the {} slots; a step must hold a token of each",
          *asked.step_tokens, outcome.limits.decode));
    outcome.limits.mixed = outcome.limits.decode;
  }
  if (has_one_list(asked.target)) outcome.traffic = as_mixed(outcome.traffic);
  outcome.today = todays_sizes(asked, outcome.limits);
  outcome.graphs = graph_costs(asked);
  const Stopwatch planning;
  const CostOptions usual = usual_costs(asked.target);
  const Costs costs(outcome.traffic, {.padding = asked.padding_cost.value_or(usual.padding),
                                      .miss = asked.miss_cost.value_or(usual.miss)});
  const Rules rules = rules_of(asked.target);
  outcome.planned =
      plan(outcome.traffic, costs, rules, outcome.graphs,
           {.graphs = asked.count.value_or(std::min(outcome.today.count(), kMostGraphs)),
            .mebibytes = asked.memory.value_or(std::numeric_limits<double>::infinity())},
           asked.covers ? &outcome.limits : nullptr);
  outcome.seconds_planned = planning.seconds();
  const Limits reachable =
      has_one_list(asked.target) ? Limits{0, outcome.limits.mixed} : outcome.limits;
  for (const std::string& gap : gaps(outcome.planned, rules, reachable))
    outcome.warnings.push_back(gap + "; --cover plans one");
  if (!asked.svg_file.empty())
    write_file(asked.svg_file, plan_chart(outcome.traffic, outcome.today, outcome.planned));
  const std::string settings = settings_text(asked.target, outcome.planned);
  if (!asked.settings_file.empty()) write_file(asked.settings_file, settings);
  if (asked.is_json)
    write_out(plan_json(outcome, costs).text(2) + "\n");
  else
    write_out(plan_report(outcome, costs) + (asked.settings_file.empty() ? settings : ""));
}

void add_engine_options(Command& command, PlanSettings& asked) {
  const char* const engine_group = "The engine";
  command
      .option("--slots", whole_number(asked.slots, 1, kMostTokens),
              "sequences that run at once [8, or the largest decode step read]")
      .group(engine_group);
  command
      .option("--step-tokens", whole_number(asked.step_tokens, 1, kMostTokens),
              "tokens of a step, at most [512, or the largest mixed step read]")
      .group(engine_group);
  command
      .option("--decode-step-tokens", whole_number(asked.decode_step_tokens, 1, kMostTokens),
              "of the engine; it is one of the mixed sizes by default")
      .shows_default(fmt::to_string(asked.decode_step_tokens))
      .group(engine_group);
  command
      .option("--decode-sizes", whole_number(asked.decode_sizes, 1, kMostTokens),
              "today's sizes [the engine's default]")
      .group(engine_group);
  command
      .option("--mixed-sizes", whole_number(asked.mixed_sizes, 1, kMostTokens),
              "today's sizes [the engine's default]")
      .group(engine_group);
  command
      .option("--graph-memory", real_number(asked.graph_memory, 0, 1e6),
              fmt::format("MiB of a graph, or of a decode and of a mixed one [{}: an 8B model on "
                          "an H200]",
                          kGraphMebibytes))
      .group(engine_group);
  command
      .option("--graph-time", real_number(asked.graph_time, 0, 1e9),
              fmt::format("milliseconds to build a graph, or a decode and a mixed one [{}: the "
                          "same]",
                          kGraphMilliseconds))
      .group(engine_group);
}

}  // namespace

void add_plan(Program& program) {
  Command command = program.command("plan", "Find the step sizes that should have graphs");
  command.footer(
      "Reads step logs of attacca, iteration logs of TensorRT-LLM and logs of vllm serve\n"
      "--cudagraph-metrics, mixed at will. docs/plan.md explains the figures.\n"
      "Examples:\n"
      "  attacca run -f prompts.txt --step-log steps.jsonl\n"
      "  attacca plan steps.jsonl -o sizes.yaml --svg sizes.svg\n"
      "  attacca run -f prompts.txt --config sizes.yaml\n"
      "  attacca plan --decode-steps 1:900,8:30 --format vllm --count 4");
  const auto asked = std::make_shared<PlanSettings>();
  command.words("LOG", asked->logs, "Logs to read; - is standard input");
  command.option("--decode-steps", text(asked->decode_steps),
                 "steps given by hand, as TOKENS:COUNT,...");
  command.option("--mixed-steps", text(asked->mixed_steps), "the same for mixed steps");
  std::vector<std::string> targets;
  for (std::size_t target = 0; target < kTargets; ++target)
    targets.emplace_back(target_name(static_cast<Target>(target)));
  command
      .option(
          "--format",
          choice_of(targets, [asked](std::size_t at) { asked->target = static_cast<Target>(at); }),
          "the engine to plan and write settings for")
      .shows_default(target_name(asked->target));
  command.option("--count", whole_number(asked->count, 1, kMostGraphs),
                 "sizes, at most [as many as today]");
  command.option("--memory", positive_number(asked->memory), "MiB of all graphs, at most");
  command.flag("--cover", asked->covers, "every step that the scheduler can form gets a graph");
  const CostOptions ours = usual_costs(Target::attacca);
  const CostOptions theirs = usual_costs(Target::vllm);
  command.option("--padding-cost", real_number(asked->padding_cost, 0, 1),
                 fmt::format("what a token of padding costs: 1 as much as a real one, 0 nothing "
                             "[attacca {:g}, the others {:g}]",
                             ours.padding, theirs.padding));
  command.option("--miss-cost", real_number(asked->miss_cost, 1, 1000),
                 fmt::format("how many times as long a step takes without a graph, if the log "
                             "does not tell [attacca {:g}, the others {:g}]",
                             ours.miss, theirs.miss));
  command.option("-o,--output", file_name(asked->settings_file), "write the settings to a file");
  command.option("--svg", file_name(asked->svg_file), "draw the steps and the sizes into a file");
  command.flag("--json", asked->is_json, "print everything as JSON");
  add_engine_options(command, *asked);
  command.action([asked] { run(*asked); });
}

}  // namespace attacca::tool
