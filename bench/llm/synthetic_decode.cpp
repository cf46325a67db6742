// synthetic_decode.cpp: whole decode steps on random weights against the time that reading them
// takes, a batch of unequal lengths against an even one, the graphs' cost at start, and PyTorch as
// a peer.
#include "llm/synthetic_benches.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "llm/graphs_at_start.hpp"
#include "llm/synthetic_runs.hpp"
#include "roofline/roofs.hpp"

namespace bench {

namespace {

using attacca::model::ModelConfig;

constexpr unsigned kUnequalBatch = 64;
constexpr double kShortest = 16;
constexpr double kLongest = 8192;
constexpr double kUnequalGate = 1.15;  // times the step with the same context spread evenly

struct Case {
  unsigned batch;
  unsigned context;
};

std::vector<Case> cases_of(const Run& run, const ModelConfig& config) {
  const bool is_cuda = run.device.is_cuda();
  std::vector<unsigned> batches = run.engine.batches;
  if (batches.empty()) batches = is_cuda ? std::vector{1u, 8u, 64u} : std::vector{1u, 8u};
  std::vector<unsigned> contexts = run.engine.contexts;
  if (contexts.empty())
    contexts = is_cuda && config.hidden >= 4096 ? std::vector{512u, 4096u} : std::vector{512u};
  std::vector<Case> cases;
  for (const unsigned context : contexts)
    for (const unsigned batch : batches) cases.push_back({batch, context});
  return cases;
}

bool has_unequal(const Run& run) { return run.device.is_cuda() && run.engine.contexts.empty(); }

bool wants_persistent(const Run& run) {
  const std::vector<std::string>& steps = run.engine.steps;
  return std::find(steps.begin(), steps.end(), "persistent") != steps.end();
}

SyntheticBatch even_batch(unsigned sequences, unsigned context) {
  return SyntheticBatch(sequences, {.context = context});
}
/// Lengths from the shortest to the longest in equal ratios, shuffled.
SyntheticBatch unequal_batch() {
  SyntheticBatch batch;
  for (unsigned at = 0; at < kUnequalBatch; ++at) {
    const double share = at / double{kUnequalBatch - 1};
    const double context = kShortest * std::pow(kLongest / kShortest, share);
    batch.push_back({.context = static_cast<std::uint32_t>(std::lround(context))});
  }
  std::shuffle(batch.begin(), batch.end(), std::mt19937(1));
  return batch;
}
/// The same number of tokens, spread evenly.
SyntheticBatch evened(const SyntheticBatch& batch) {
  const auto total = static_cast<unsigned>(context_of(batch));
  const auto sequences = static_cast<unsigned>(batch.size());
  SyntheticBatch even = even_batch(sequences, total / sequences);
  for (unsigned at = 0; at < total % sequences; ++at) ++even[at].context;
  return even;
}

/// The project's gates on an H200: microseconds, or a fraction of the floor.
std::optional<double> gate_of(const std::string& shape, const Case& c, double floor) {
  const bool is_same_bits = c.batch == 8 || c.batch == 64;
  if (shape == "llama-1b" && c.batch == 1 && c.context == 512) return 800;
  if (shape != "llama-8b") return std::nullopt;
  if (c.context == 512 && c.batch == 1) return 3950;
  if (c.context == 512 && is_same_bits) return floor / 0.80;
  if (c.context == 4096 && is_same_bits) return floor / 0.75;
  return std::nullopt;
}

/// The gates of a step as one persistent kernel, at context 512.
std::optional<double> persistent_gate_of(const std::string& shape, const Case& c, double floor) {
  if (c.context != 512) return std::nullopt;
  if (shape == "llama-8b" && c.batch == 8) return floor / 0.86;
  if (c.batch != 1) return std::nullopt;
  if (shape == "llama-1b") return 740;
  if (shape == "llama-8b") return 3700;
  if (shape == "smollm2-135m") return 400;
  return std::nullopt;
}

class DecodeRun {
 public:
  explicit DecodeRun(Run& run)
      : run_(run),
        modes_(modes_of(run)),
        bandwidth_(attacca::roofline::read_bandwidth(run.device)),
        clock_(device_clock(run.device)) {
    run.note(fmt::format(
        "floor: the weights and the context's keys and values, read at the {:.0f} GB/s that a "
        "sweep of loads reached in this run",
        bandwidth_ / 1e9));
  }

  void run_shape(const ModelConfig& config) {
    if (run_.engine.contexts.empty()) run_graphs_at_start(run_, config);
    const std::vector<Case> cases = cases_of(run_, config);
    std::uint64_t pages = 0;
    for (const Case& c : cases)
      pages = std::max(pages, steps_of_batch(run_) * pages_of(even_batch(c.batch, c.context)));
    if (has_unequal(run_))
      pages = std::max(pages, pages_of(unequal_batch()) + pages_of(evened(unequal_batch())));
    {
      const SyntheticModel model(config, run_.device, pages);
      for (const Case& c : cases) run_case(model, c);
      if (has_unequal(run_)) run_unequal(model);
    }
    if (has_unequal(run_)) run_fp8(config);
  }

  void run_peers() { add_peers(run_, compared_, ask_torch(run_, peer_cases_, false)); }

 private:
  double floor_of(const SyntheticModel& model, const SyntheticBatch& batch) const {
    return model.bytes_read(batch) / bandwidth_ * 1e6;
  }

  void run_case(const SyntheticModel& model, const Case& c) {
    const std::string& shape = model.config.name;
    const SyntheticBatch batch = even_batch(c.batch, c.context);
    const double floor = floor_of(model, batch);
    const SyntheticStep step(model, batch);
    std::optional<SyntheticStep> same;  // computes the same bits whatever is in the batch
    std::vector<Variant> variants = variants_of({&step}, modes_);
    if (steps_of_batch(run_) == 2)
      variants.push_back({&same.emplace(model, batch, pages_of(batch), true), modes_.front()});
    const auto times = time_steps(
        run_, clock_, variants, fmt::format("{}, batch {}, context {}", shape, c.batch, c.context));
    for (std::size_t at = 0; at < modes_.size(); ++at) {
      Row row{.name = "decode step",
              .params = {{"shape", shape},
                         {"batch", c.batch},
                         {"context", c.context},
                         {"graphs", name_of(modes_[at])}},
              .value = times[at]};
      row.floor = floor;
      if (modes_[at] == GraphMode::full && run_.device.is_cuda())
        row.limit = gate_of(shape, c, floor);
      run_.add(row);
      if (at == 0) compared_.push_back({row, peer_cases_.size()});
    }
    peer_cases_.push_back({model.config, c.batch, c.context, 1});
    if (wants_persistent(run_)) run_persistent(model, c, step, floor);
    if (!same) return;
    Row row = compared("decode step with the same bits",
                       {{"shape", shape},
                        {"batch", c.batch},
                        {"context", c.context},
                        {"graphs", name_of(modes_.front())}},
                       times.back(), times.front());
    row.floor = floor;
    run_.add(row);
  }

  /// The same step as one kernel, against the chain of kernels. Both write the same keys and values
  /// to the same pages.
  void run_persistent(const SyntheticModel& model, const Case& c, const SyntheticStep& kernels,
                      double floor) {
    const std::string what =
        fmt::format("{}, batch {}, context {}, persistent", model.config.name, c.batch, c.context);
    const SyntheticStep step(model, even_batch(c.batch, c.context), 0, false, true);
    if (const std::string why = step.why_not_persistent(); !why.empty())
      return run_.note(fmt::format("{}: it is a chain of kernels: {}", what, why));
    const std::vector<Variant> variants = variants_of({&step, &kernels}, {GraphMode::full});
    const auto times = time_steps(run_, clock_, variants, what);
    const auto draws = [](const Variant& of) {
      return of.step->draws_of(of.step->launch(of.mode));
    };
    if (draws(variants[0]) != draws(variants[1]))
      run_.note(what + ": it computes other bits than the kernels");
    Row row = compared("decode step as one kernel",
                       {{"shape", model.config.name}, {"batch", c.batch}, {"context", c.context}},
                       times[0], times[1]);
    row.floor = floor;
    row.limit = persistent_gate_of(model.config.name, c, floor);
    run_.add(row);
  }

  /// The same weights in half the bytes.
  void run_fp8(const ModelConfig& config) {
    constexpr unsigned kContext = 512;
    const SyntheticModel model(config, run_.device, pages_of(even_batch(8, kContext)), 1,
                               attacca::model::WeightFormat::fp8);
    for (const unsigned sequences : {1u, 8u}) {
      const SyntheticBatch batch = even_batch(sequences, kContext);
      const SyntheticStep step(model, batch);
      const auto times = time_steps(run_, clock_, variants_of({&step}, {GraphMode::full}),
                                    fmt::format("{}, fp8, batch {}", config.name, sequences));
      Row row{.name = "decode step in fp8",
              .params = {{"shape", config.name},
                         {"batch", sequences},
                         {"context", kContext},
                         {"graphs", name_of(GraphMode::full)}},
              .value = times[0]};
      row.floor = floor_of(model, batch);
      run_.add(row);
    }
  }

  void run_unequal(const SyntheticModel& model) {
    const SyntheticBatch batch = unequal_batch();
    const double floor = floor_of(model, batch);
    const SyntheticStep unequal(model, batch);
    const SyntheticStep even(model, evened(batch), pages_of(batch));
    const auto times = time_steps(run_, clock_, variants_of({&unequal, &even}, {modes_.front()}),
                                  model.config.name + ", unequal lengths");
    Row row = compared("unequal lengths",
                       {{"shape", model.config.name},
                        {"batch", kUnequalBatch},
                        {"context", fmt::format("{} to {}", kShortest, kLongest)},
                        {"graphs", name_of(modes_.front())}},
                       times[0], times[1]);
    row.floor = floor;
    row.limit = times[1].median * kUnequalGate;
    run_.add(row);
  }

  Run& run_;
  std::vector<GraphMode> modes_;
  double bandwidth_;
  DeviceClock clock_;
  std::vector<Compared> compared_;
  std::vector<PeerCase> peer_cases_;
};

}  // namespace

void run_synthetic_decode(Run& run) {
  DecodeRun decode(run);
  note_same_bits(run);
  for (const ModelConfig& config : shapes_of(run)) decode.run_shape(config);
  if (has_unequal(run))
    run.note(
        fmt::format("unequal lengths: {} sequences, each longer than the last by the same "
                    "factor; the baseline has as many tokens in all, spread evenly",
                    kUnequalBatch));
  decode.run_peers();
}

}  // namespace bench
