// `attacca bench`: runs benchmarks by name, prints what they measured, and writes it as JSON and as
// pictures. The benchmarks are in bench/. A build without them has no_bench.cpp instead.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "command.hpp"
#include "files.hpp"
#include "gates.hpp"
#include "harness.hpp"
#include "trace_choice.hpp"
#include "values.hpp"

#if ATTACCA_WITH_LLM
#include "model/random_model.hpp"
#include "model/shapes.hpp"
#endif

namespace attacca::tool {

namespace {

using bench::Benchmark;
using bench::Needs;

struct Choices {
  std::vector<std::string> names;
  std::string device;
  std::string json_file;
  std::string svg_file;
  std::string json_dir;
  std::string commit;
  std::string known_misses;
  bench::EngineChoices engine;
  bool predicts_ranks = false;  // --model without a value
  bool has_no_peer = false;
  bool is_quick = false;
  bool is_once = false;
  TraceChoice trace;
};

constexpr std::string_view kOverhead = "overhead-";
bool is_overhead(const Benchmark& benchmark) { return benchmark.name.starts_with(kOverhead); }

enum class Part { claims, overhead, ranks, engine };
Part part_of(const Benchmark& benchmark) {
  if (benchmark.is_engine) return Part::engine;
  if (benchmark.name.starts_with("ranks")) return Part::ranks;
  return is_overhead(benchmark) ? Part::overhead : Part::claims;
}

/// By part, then by name.
std::vector<Benchmark> sorted_benchmarks() {
  std::vector<Benchmark> all = bench::benchmarks();
  std::sort(all.begin(), all.end(), [](const Benchmark& a, const Benchmark& b) {
    return std::pair(part_of(a), a.name) < std::pair(part_of(b), b.name);
  });
  return all;
}

void print_list() {
  constexpr const char* kWhere[] = {"host", "GPU", "host, GPU"};
  const auto print = [&](const char* heading, Part part) {
    fmt::print("{}\n", heading);
    for (const Benchmark& benchmark : sorted_benchmarks())
      if (part_of(benchmark) == part)
        fmt::print("  {:<22}  {:<9}  {}\n", benchmark.name,
                   kWhere[static_cast<std::size_t>(benchmark.needs)], benchmark.question);
  };
  print("Claims about GPUs, tested on one:", Part::claims);
  print("\nattacca compared with the same done by hand:", Part::overhead);
  print("\nRanks, as threads and as processes:", Part::ranks);
#if ATTACCA_WITH_LLM
  print("\nThe language model engine compared with what the machine allows:", Part::engine);
#endif
  fmt::print("\n`attacca bench serve --url http://HOST:PORT` puts load on a server.\n");
  if (Device::cuda_count() == 0)
    fmt::print("\nThis build can use no GPU here; `attacca doctor` says what is missing.\n");
}

/// The number of letters to insert, drop or change to turn one word into the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

Benchmark benchmark_called(const std::string& name) {
  constexpr std::size_t kNear = 2;
  std::vector<std::string> near;
  for (const Benchmark& benchmark : sorted_benchmarks()) {
    if (benchmark.name == name) return benchmark;
    const std::string stem = benchmark.name.substr(is_overhead(benchmark) ? kOverhead.size() : 0);
    if (benchmark.name.find(name) != std::string::npos || distance(stem, name) <= kNear)
      near.push_back(benchmark.name);
  }
  throw UsageError(
      fmt::format("no benchmark '{}'{}{}; `attacca bench list` names them all, and `all` runs them",
                  name, near.empty() ? "" : "; near it: ", fmt::join(near, ", ")));
}

/// The device a benchmark runs on, or the reason it cannot run.
struct Place {
  std::optional<Device> device;
  std::string why_not;
};

Place place_for(const Benchmark& benchmark, const std::optional<Device>& asked) {
  const bool has_gpu = Device::cuda_count() > 0;
  std::string reason = benchmark.needs == Needs::host ? "runs on the host only" : "needs a GPU";
  if (!benchmark.why_not.empty()) reason += ": " + benchmark.why_not;
  if (reason.ends_with('.')) reason.pop_back();
  if (asked && benchmark.needs != Needs::either &&
      asked->is_cuda() != (benchmark.needs == Needs::cuda))
    return {{}, reason};
  if (!benchmark.run) return {{}, reason + "; this build has no CUDA, `cmake --preset cuda` has"};
  if (asked) return {asked, ""};
  if (benchmark.needs == Needs::cuda && !has_gpu)
    return {{}, reason + "; there is none here, `attacca doctor` says why"};
  return {benchmark.needs == Needs::host || !has_gpu ? Device::host() : Device::cuda(0), ""};
}

/// The list beside the benchmarks' sources, or the one that was asked for.
std::vector<bench::KnownMiss> known_misses(const Choices& choices) {
  if (!choices.known_misses.empty()) return bench::read_known_misses(choices.known_misses);
  const std::filesystem::path file = bench::source_folder() / "bench" / "known_misses.json";
  return std::filesystem::exists(file) ? bench::read_known_misses(file)
                                       : std::vector<bench::KnownMiss>{};
}

/// Counts the gates of all benchmarks that held and that were missed.
class Tally {
 public:
  void add(const Benchmark& benchmark, const bench::Measured& measured, bool is_complete) {
    const auto& rows = measured.run.rows();
    for (std::size_t at = 0; at < rows.size(); ++at) {
      const bench::Gate* gate = measured.gates.of(at);
      if (!gate) continue;
      if (!gate->is_missed()) ++held_;
      if (gate->is_missed() && gate->known) ++known_;
      if (gate->is_failure())
        missed_.push_back(fmt::format("{}: {}, missed in {} of {} runs", benchmark.name,
                                      bench::label_of(rows[at].name, rows[at].params),
                                      gate->runs_missed, gate->runs));
    }
    if (!is_complete) return;
    for (const std::string& line : measured.gates.stale()) stale_.push_back(line);
  }
  void print() const {
    if (held_ + known_ + missed_.size() + stale_.size() == 0) return;
    fmt::print("gates: {} held, {} missed for a known reason, {} missed\n", held_, known_,
               missed_.size());
    for (const std::string& line : missed_) fmt::print("  {}\n", line);
    for (const std::string& line : stale_) fmt::print("stale known miss: {}\n", line);
  }
  bool has_failures() const { return !missed_.empty(); }

 private:
  std::size_t held_ = 0;
  std::size_t known_ = 0;
  std::vector<std::string> missed_;
  std::vector<std::string> stale_;
};

/// Whether a benchmark runs all of its rows, so that a known miss without a row is out of date.
bool is_complete(const Benchmark& benchmark, const bench::EngineChoices& engine) {
  return !benchmark.is_engine ||
         (engine.model.empty() && engine.shapes.empty() && engine.batches.empty() &&
          engine.contexts.empty() && engine.tokens.empty() && engine.graphs.empty() &&
          engine.steps.empty() && engine.weights.empty() && engine.slots.empty());
}

void run_one(const Benchmark& benchmark, const Device& device, const Choices& choices,
             const std::vector<bench::KnownMiss>& known, Tally& tally) {
  bench::Origin origin = bench::origin_of(device);
  if (!choices.commit.empty()) origin.commit = choices.commit;
  std::optional<Tracer> tracer;
  if (!choices.trace.file.empty()) tracer.emplace(device, choices.trace.level);
  if (tracer) say_what_is_missing(*tracer, choices.trace.file);
  const bench::Measured measured = bench::measure(benchmark, device, choices.is_quick,
                                                  choices.engine, origin, known, !choices.is_once);
  if (tracer) {
    write_recorded(*tracer, choices.trace.file);
    tracer.reset();
    fmt::print(stderr, "--trace {}: times include what recording costs, see attacca bench trace\n",
               choices.trace.file);
  }
  bench::print_report(benchmark, origin, measured);
  std::fflush(stdout);
  if (!choices.is_quick)  // a few samples decide no gate
    tally.add(benchmark, measured, is_complete(benchmark, choices.engine));

  const std::string json = bench::to_json(benchmark, origin, measured).dump(2) + '\n';
  const std::string svg = bench::to_svg(benchmark, origin, measured.run);
  if (!choices.json_file.empty()) write_file(choices.json_file, json);
  if (!choices.json_dir.empty()) {
    const std::filesystem::path folder = choices.json_dir;
    write_file(folder / (benchmark.name + ".json"), json);
    if (!svg.empty()) write_file(folder / (benchmark.name + ".svg"), svg);
  }
  if (!choices.svg_file.empty()) {
    if (svg.empty()) throw Error("has no curve to draw; leave --svg out");
    write_file(choices.svg_file, svg);
  }
}

/// Runs every chosen benchmark, even where an earlier one failed or missed its gate.
void run_all(const std::vector<Benchmark>& chosen, bool may_skip, const Choices& choices) {
  const auto asked =
      choices.device.empty() ? std::nullopt : std::optional(Device::from_name(choices.device));
  if (!choices.json_dir.empty()) std::filesystem::create_directories(choices.json_dir);
  const std::vector<bench::KnownMiss> known = known_misses(choices);
  Tally tally;
  int failures = 0;
  for (const Benchmark& benchmark : chosen) {
    const auto [device, why_not] = place_for(benchmark, asked);
    if (!device && may_skip) {
      fmt::print("skipped {}: {}\n", benchmark.name, why_not);
      continue;
    }
    try {
      if (!device) throw Error(why_not);
      run_one(benchmark, *device, choices, known, tally);
    } catch (const std::exception& error) {
      ++failures;
      fmt::print(stderr, "attacca: {}: {}\n", benchmark.name, error.what());
    }
  }
  tally.print();
  if (failures || tally.has_failures()) throw ExitStatus{1};
}

/// `list` and `all` are no names of benchmarks.
void require_alone(const std::vector<std::string>& names) {
  if (names.size() < 2) return;
  for (const auto& [word, does] :
       {std::pair{"list", "names the benchmarks"}, std::pair{"all", "runs every benchmark"}}) {
    std::vector<std::string> others = names;
    if (std::erase(others, word) > 0)
      throw UsageError(fmt::format(
          "{0} {1} and stands alone; `attacca bench {0}` does that, `attacca bench {2}` runs {2}",
          word, does, others.empty() ? "NAME" : fmt::format("{}", fmt::join(others, " "))));
  }
}

void run(const Choices& choices) {
  if (!choices.engine.model.empty() && !choices.engine.shapes.empty())
    throw UsageError("--model and --shape both say what to run; give one of them");
  const auto& names = choices.names;
  if (choices.predicts_ranks && names != std::vector<std::string>{"ranks-model"})
    throw UsageError("--model needs a value: --model TEXT, unless the benchmark is ranks");
  require_alone(names);
  if (names.empty() || (names.size() == 1 && names.front() == "list")) return print_list();
  const bool is_all = names.size() == 1 && names.front() == "all";
  std::vector<Benchmark> chosen;
  if (is_all)
    chosen = sorted_benchmarks();
  else
    for (const std::string& name : names) chosen.push_back(benchmark_called(name));
  if ((is_all || names.size() > 1) && !(choices.json_file.empty() && choices.svg_file.empty()))
    throw UsageError("--json and --svg take one benchmark; --json-dir writes the files of several");
  if ((is_all || names.size() > 1) && !choices.trace.file.empty())
    throw UsageError("--trace takes one benchmark");
  check(choices.trace);
  for (const std::string& file : {choices.json_file, choices.svg_file, choices.trace.file})
    if (!file.empty()) require_writable(file);
  run_all(chosen, is_all, choices);
}

#if ATTACCA_WITH_LLM
Value shapes(std::vector<std::string>& places) { return one_of(model::shape_names(), places); }
Value weight_types(std::vector<std::string>& places) {
  return one_of(model::weight_type_names(), places);
}
#else  // no benchmark takes them
Value shapes(std::vector<std::string>& places) { return list_of(places); }
Value weight_types(std::vector<std::string>& places) { return list_of(places); }
#endif

/// Adds the options of the engine's benchmarks. Returns --model.
Option add_engine_options(Command& command, Choices& choices) {
  constexpr std::uint64_t kMost = 1 << 24;
  bench::EngineChoices& engine = choices.engine;
  const auto add = [&](const char* name, const Value& value, const char* help) {
    return command.option(name, value, help).group("decode, prefill and engine");
  };
  const Option model =
      add("--model", text(engine.model),
          "A path or a name; SmolLM2 where it was pulled, and on a GPU shapes instead. `ranks "
          "--model`, without a value, is ranks-model")
          .may_be_bare();
  add("--shape", shapes(engine.shapes), "Random weights in the shape of this model");
  add("--batch", whole_number(engine.batches, 1, kMost), "decode, shapes: sequences of a step");
  add("--context", whole_number(engine.contexts, 1, kMost),
      "decode, shapes: tokens before the one that is computed");
  add("--tokens", whole_number(engine.tokens, 1, kMost), "prefill, shapes: tokens of a prompt");
  add("--graphs", one_of({"full", "piecewise", "off"}, engine.graphs),
      "Shapes: full, piecewise or off, or several of them");
  add("--step", one_of({"kernels", "persistent"}, engine.steps),
      "decode, shapes on a GPU: also steps as one persistent kernel, against the kernels");
  add("--weights", weight_types(engine.weights), "engine, shapes: the type of weights");
  add("--slots", whole_number(engine.slots, 1, kMost), "engine: requests at once");
  command
      .option("--link", text(engine.links),
              "NAME:MICROSECONDS:GIGABYTES of a link to predict for; may be given again")
      .group("ranks-model");
  command.flag("--no-peer", choices.has_no_peer, "Shapes: leave PyTorch out")
      .group("decode, prefill and engine");
  return model;
}

}  // namespace

void add_bench(Program& program) {
  Command command = program.command("bench", "Measure attacca, and test claims about GPUs");
  command.footer(
      "Examples:\n"
      "  attacca bench list                                  names, questions, where each runs\n"
      "  attacca bench queue --device host --quick           a few samples, to see that it runs\n"
      "  attacca bench queue --json queue.json --svg queue.svg\n"
      "  attacca bench all --device cuda:0 --json-dir results\n"
      "  attacca bench decode --shape llama-8b --batch 1,8,64 --context 512 --graphs full,off\n"
      "  attacca bench engine --shape llama-8b --weights bf16,q4_k --slots 8,64\n"
      "  attacca bench ranks-model --link nvlink:2:450 --link ethernet:20:12 --svg ranks.svg");
  const auto choices = std::make_shared<Choices>();
  command.words("NAME", choices->names,
                "Names of benchmarks, `all`, or `list`, which is the default");
  command.option("--device", device_name(choices->device),
                 "host or cuda:N [a GPU, if there is one and the benchmark can use it]");
  command.option("--json", file_name(choices->json_file),
                 "Write the result of one benchmark to a file");
  command.option("--svg", file_name(choices->svg_file),
                 "Draw the curves of one benchmark into a file");
  command.option("--json-dir", file_name(choices->json_dir),
                 "Write NAME.json, and NAME.svg if it has a curve, to this folder");
  command.flag("--quick", choices->is_quick, "Take a few samples, to see that it runs");
  command.flag("--once", choices->is_once, "Do not measure again where a gate was missed");
  command.option("--commit", text(choices->commit),
                 "What was built, where git could not say it during the build");
  command.option("--known-misses", file_name(choices->known_misses),
                 "Gates that may be missed, each with its reason [bench/known_misses.json of the "
                 "checkout this was built from]");
  add_trace_options(command, choices->trace);
  const Option model = add_engine_options(command, *choices);
  add_bench_serve(command);
  command.action([choices, model] {
    choices->predicts_ranks = model.is_bare();
    if (choices->predicts_ranks && choices->names == std::vector<std::string>{"ranks"})
      choices->names = {"ranks-model"};
    choices->engine.has_peer = !choices->has_no_peer;
    run(*choices);
  });
}

}  // namespace attacca::tool
