// synthetic_prefill.cpp: prefill on random weights against the time that its GEMMs take at the
// measured rate, batches that mix a prompt with decoding sequences, and PyTorch as a peer.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "instruments/multiply_add.hpp"
#include "llm/synthetic_benches.hpp"
#include "llm/synthetic_runs.hpp"
#include "model/shapes.hpp"

namespace bench {

namespace {

using attacca::model::ModelConfig;

constexpr unsigned kGatedTokens = 2048;
constexpr double kRateGate = 0.7;        // of the matrix rate
constexpr double kFp8Gate = 1.1;         // times as long as with bf16 weights
constexpr unsigned kDecoding = 16;       // sequences of a mixed batch that decode
constexpr unsigned kMixedContext = 512;  // behind each of them
constexpr unsigned kSmallMixed = 64;     // tokens of a mixed batch that launches would hold up
constexpr double kSmallMixedGate = 1.1;  // times as fast as without graphs

std::vector<unsigned> tokens_of(const Run& run) {
  if (!run.engine.tokens.empty()) return run.engine.tokens;
  return run.device.is_cuda() ? std::vector{512u, kGatedTokens} : std::vector{64u};
}

/// A chunk of a prompt and sequences that decode, `tokens` in all.
SyntheticBatch mixed_batch(unsigned tokens) {
  SyntheticBatch batch(kDecoding, {.context = kMixedContext});
  batch.push_back({.context = 0, .tokens = tokens - kDecoding});
  return batch;
}

class PrefillRun {
 public:
  explicit PrefillRun(Run& run)
      : run_(run), modes_(modes_of(run)), clock_(device_clock(run.device)) {}

  void run_shape(const ModelConfig& config) {
    const std::vector<unsigned> lengths = tokens_of(run_);
    const bool is_mixed = run_.device.is_cuda() && run_.engine.tokens.empty();
    const std::vector<unsigned> mixed = is_mixed && config.name == "llama-1b"
                                            ? std::vector{64u, 256u, 512u}
                                            : std::vector<unsigned>{};
    std::uint64_t pages = 0;
    for (const unsigned tokens : lengths)
      pages = std::max(pages, steps_of_batch(run_) * pages_of({{0, tokens}}));
    for (const unsigned tokens : mixed) pages = std::max(pages, pages_of(mixed_batch(tokens)));
    std::vector<double> medians;
    {
      const SyntheticModel model(config, run_.device, pages);
      for (const unsigned tokens : lengths) medians.push_back(run_prompt(model, tokens));
      for (const unsigned tokens : mixed) run_mixed(model, tokens);
    }
    if (!run_.device.is_cuda()) return;
    const SyntheticModel model(config, run_.device, pages, 1, attacca::model::WeightFormat::fp8);
    for (std::size_t at = 0; at < lengths.size(); ++at) run_fp8(model, lengths[at], medians[at]);
  }

  /// PyTorch may report the rate, so rows are added after the peers ran.
  void finish() {
    const PeerAnswer answer = ask_torch(run_, peer_cases_, true);
    std::optional<double> rate = answer.matrix_rate;
    if (!run_.device.is_cuda()) rate = 2 * attacca::instruments::multiply_add_rate();
    run_.note(rate ? fmt::format("floor: the products with weights at the measured {:.3g} TFLOP/s; "
                                 "attention and the head's one row left out",
                                 *rate / 1e12)
                   : "no floor: the rate of matrix products comes with the peer");
    for (Prompt& prompt : prompts_) {
      if (rate) prompt.row.floor = prompt.flops / *rate * 1e6;
      if (rate && prompt.is_gated) prompt.row.limit = *prompt.row.floor / kRateGate;
      run_.add(prompt.row);
    }
    for (const Row& row : mixed_) run_.add(row);
    add_peers(run_, compared_, answer);
  }

 private:
  struct Prompt {
    Row row;
    double flops;
    bool is_gated;
  };

  /// The median of the first mode.
  double run_prompt(const SyntheticModel& model, unsigned tokens) {
    const std::string& shape = model.config.name;
    const SyntheticBatch batch{{0, tokens}};
    const SyntheticStep step(model, batch);
    std::optional<SyntheticStep> same;  // computes the same bits whatever is in the batch
    std::vector<Variant> variants = variants_of({&step}, modes_);
    if (steps_of_batch(run_) == 2)
      variants.push_back({&same.emplace(model, batch, pages_of(batch), true), modes_.front()});
    const auto times =
        time_steps(run_, clock_, variants, fmt::format("{}, prompt of {}", shape, tokens));
    for (std::size_t at = 0; at < modes_.size(); ++at) {
      Row row{.name = "prefill",
              .params = {{"shape", shape}, {"tokens", tokens}, {"graphs", name_of(modes_[at])}},
              .value = times[at]};
      const bool is_gated = shape == "llama-8b" && tokens == kGatedTokens &&
                            modes_[at] == GraphMode::full && run_.device.is_cuda();
      prompts_.push_back({row, 2 * parameters_per_token(model.config) * tokens, is_gated});
      if (at == 0) compared_.push_back({row, peer_cases_.size()});
    }
    peer_cases_.push_back({model.config, 1, 0, tokens});
    if (!same) return times.front().median;
    const Row row =
        compared("prefill with the same bits",
                 {{"shape", shape}, {"tokens", tokens}, {"graphs", name_of(modes_.front())}},
                 times.back(), times.front());
    prompts_.push_back({row, 2 * parameters_per_token(model.config) * tokens, false});
    return times.front().median;
  }

  /// `bf16`: the median with bf16 weights.
  void run_fp8(const SyntheticModel& model, unsigned tokens, double bf16) {
    const std::string& shape = model.config.name;
    const SyntheticStep step(model, SyntheticBatch{{0, tokens}});
    const auto times = time_steps(run_, clock_, variants_of({&step}, {modes_.front()}),
                                  fmt::format("{}, fp8, prompt of {}", shape, tokens));
    Row row{.name = "prefill in fp8",
            .params = {{"shape", shape}, {"tokens", tokens}, {"graphs", name_of(modes_.front())}},
            .value = times[0]};
    row.baseline = bf16;
    row.limit = kFp8Gate * bf16;
    prompts_.push_back({row, 2 * parameters_per_token(model.config) * tokens, false});
  }

  void run_mixed(const SyntheticModel& model, unsigned tokens) {
    const std::vector<GraphMode> all{GraphMode::full, GraphMode::piecewise, GraphMode::off};
    const SyntheticStep step(model, mixed_batch(tokens));
    const auto times = time_steps(run_, clock_, variants_of({&step}, all),
                                  fmt::format("{}, mixed, {}", model.config.name, tokens));
    for (std::size_t at = 0; at < all.size(); ++at) {
      Row row = compared("mixed step",
                         {{"shape", model.config.name},
                          {"tokens", tokens},
                          {"graphs", name_of(all[at])},
                          {"decoding", kDecoding}},
                         times[at], times[2]);
      if (at == 0) row.limit = times[1].median;
      if (at == 0 && tokens == kSmallMixed)
        row.limit = std::min(*row.limit, times[2].median / kSmallMixedGate);
      if (at == 2) row.baseline.reset();
      mixed_.push_back(row);
    }
  }

  Run& run_;
  std::vector<GraphMode> modes_;
  DeviceClock clock_;
  std::vector<Prompt> prompts_;
  std::vector<Row> mixed_;
  std::vector<Compared> compared_;
  std::vector<PeerCase> peer_cases_;
};

}  // namespace

void run_synthetic_prefill(Run& run) {
  PrefillRun prefill(run);
  note_same_bits(run);
  for (const ModelConfig& config : shapes_of(run)) prefill.run_shape(config);
  prefill.finish();
}

}  // namespace bench
