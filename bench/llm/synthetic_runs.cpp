// synthetic_runs.cpp: runs and times the steps of synthetic_step.hpp in all requested modes, and
// makes rows of them.
#include "llm/synthetic_runs.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <map>

#include "model/shapes.hpp"

namespace bench {

namespace {

constexpr int kSamples = 21;
constexpr int kFewest = 3;
constexpr double kMostMicroseconds = 5e6;     // of all samples, unless the fewest take longer
constexpr double kSampleMicroseconds = 4000;  // a sample takes as many launches as fit into this
constexpr double kMostLaunches = 16;

}  // namespace

bool is_synthetic(const Run& run) {
  return !run.engine.shapes.empty() || (run.device.is_cuda() && run.engine.model.empty());
}

std::vector<attacca::model::ModelConfig> shapes_of(const Run& run) {
  std::vector<std::string> names = run.engine.shapes;
  if (names.empty()) names = {"llama-1b", "llama-8b"};
  std::vector<attacca::model::ModelConfig> shapes;
  for (const std::string& name : names) shapes.push_back(attacca::model::shape_called(name));
  return shapes;
}

std::vector<GraphMode> modes_of(const Run& run) {
  if (run.engine.graphs.empty()) return {GraphMode::full, GraphMode::off};
  std::vector<GraphMode> modes;
  for (const std::string& name : run.engine.graphs) modes.push_back(graph_mode_called(name));
  return modes;
}

unsigned steps_of_batch(const Run& run) { return run.device.is_cuda() ? 2 : 1; }

void note_same_bits(Run& run) {
  if (steps_of_batch(run) == 2)
    run.note(
        "rows with the same bits are as with --same-bits, compared with the others, which are what "
        "the engine does by default");
}

std::vector<Variant> variants_of(const std::vector<const SyntheticStep*>& steps,
                                 const std::vector<GraphMode>& modes) {
  std::vector<Variant> variants;
  for (const SyntheticStep* step : steps)
    for (const GraphMode mode : modes) variants.push_back({step, mode});
  return variants;
}

std::vector<Summary> time_steps(Run& run, const DeviceClock& clock,
                                const std::vector<Variant>& variants, const std::string& what) {
  std::vector<std::function<double()>> timed;
  std::vector<Launch> launches;
  std::map<const SyntheticStep*, std::vector<SyntheticDraw>> draws;
  double round = 0;  // microseconds of one sample of every step
  for (const Variant& variant : variants) {
    const Launch& launch = launches.emplace_back(variant.step->launch(variant.mode));
    const std::vector<SyntheticDraw> drawn = variant.step->draws_of(launch);
    if (draws.try_emplace(variant.step, drawn).first->second != drawn)
      run.note(fmt::format("{}: with graphs '{}' it computes other bits than with '{}'", what,
                           name_of(variant.mode), name_of(variants.front().mode)));
    const double once = clock(launch, 1);
    const auto count =
        static_cast<unsigned>(std::clamp(kSampleMicroseconds / once, 1.0, kMostLaunches));
    round += once * count;
    timed.push_back([&clock, launch, count] { return clock(launch, count); });
  }
  const double fit = std::clamp(kMostMicroseconds / round, 1.0 * kFewest, 1.0 * kSamples);
  const std::vector<Summary> times = run.interleave(what, static_cast<int>(fit), timed);
  for (std::size_t at = 0; at < variants.size(); ++at)
    if (variants[at].step->draws_of(launches[at]) != draws.at(variants[at].step))
      run.note(fmt::format("{}: with graphs '{}' it computes other bits at the end than at first",
                           what, name_of(variants[at].mode)));
  return times;
}

void add_peers(Run& run, const std::vector<Compared>& rows, const PeerAnswer& answer) {
  for (const Compared& ours : rows)
    for (const PeerFigure& theirs : answer.figures) {
      if (theirs.at != ours.at) continue;
      Row row{.name = ours.row.name + " against a peer",
              .params = ours.row.params,
              .value = ours.row.value};
      row.params["peer"] = theirs.peer;
      row.baseline = theirs.microseconds;
      run.add(row);
    }
}

}  // namespace bench
