// prefill.cpp: how close the prefill of a model comes to the processor's peak rate, and how long
// the first token takes without a cached prefix. Random weights are in synthetic_prefill.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <attacca/error.hpp>

#include "instruments/multiply_add.hpp"
#include "llm/engine_runs.hpp"
#include "llm/synthetic_benches.hpp"
#include "llm/synthetic_runs.hpp"

namespace bench {

namespace {

using namespace attacca::llm;

constexpr double kPeakGate = 0.3;
constexpr double kFirstTokenGate = 1e6;  // µs
constexpr std::size_t kLongest = 512;

/// Microseconds from the request to the first token, for prompts without a cached prefix.
double prefill(const Model& model, Engine& engine, std::size_t tokens, unsigned seed) {
  Request request;
  request.tokens = random_tokens(model, tokens, seed);
  request.max_tokens = 1;
  request.ignores_end = true;
  return engine.generate(request).seconds_to_first_token * 1e6;
}

void run_prefill(Run& run) {
  if (is_synthetic(run)) return run_synthetic_prefill(run);
  if (run.device.is_cuda())
    throw attacca::BadArgument("prefill of a model is measured on the host; use --shape on a GPU");
  const Model model = model_of(run);
  EngineOptions options;
  options.device = run.device;
  options.context = std::min<std::size_t>(model.context(), 2 * kLongest);
  options.shares_prefixes = false;
  Engine engine(model, options);
  const double peak = attacca::instruments::multiply_add_rate();
  run.note(
      fmt::format("floor: a multiply-add for each weight and token at the measured peak of "
                  "{:.1f} G multiply-adds/s; attention and the head's one row left out",
                  peak / 1e9));
  unsigned seed = 1;
  for (const std::size_t tokens : {32u, 128u, 512u}) {
    const auto samples = run.interleave(fmt::format("{} tokens", tokens), run.is_quick() ? 3 : 11,
                                        {[&] { return prefill(model, engine, tokens, seed++); }});
    Row row{.name = "prefill", .params = {{"tokens", tokens}}, .value = samples[0]};
    row.floor = static_cast<double>(model.parameters_per_token()) * static_cast<double>(tokens) /
                peak * 1e6;
    if (tokens == kLongest) row.limit = *row.floor / kPeakGate;
    run.add(row);
  }
  const auto start = [&] {
    return microseconds([&] {
      const Model embedded("");
      EngineOptions plain;
      plain.device = run.device;
      Engine fresh(embedded, plain);
      fresh.generate({.prompt = "Once upon a time", .max_tokens = 1});
    });
  };
  const auto samples = run.interleave("first token", run.is_quick() ? 2 : 5, {start});
  Row row{.name = "embedded model: open, build, first token", .params = {}, .value = samples[0]};
  row.limit = kFirstTokenGate;
  run.add(row);
}

const Registered registered{{.name = "prefill",
                             .question = "how close does reading a prompt come to the peak rate?",
                             .needs = Needs::either,
                             .run = run_prefill,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
