// decode.cpp: how close a decode step of a model comes to the time that reading its memory takes,
// and what the engine costs besides the graphs. Steps on random weights are in
// synthetic_decode.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "llm/engine_runs.hpp"
#include "llm/synthetic_benches.hpp"
#include "llm/synthetic_runs.hpp"
#include "roofline/roofs.hpp"

namespace bench {

namespace {

using namespace attacca::llm;

// The share of the memory floor that a step must reach. Two Neoverse-V1 cores compute longer than
// they read; a step with real-time priority, so that other programs could not hold it up, reached
// 0.33 there.
constexpr double kFloorGate = 0.3;
constexpr double kOverheadGate = 0.01;  // of the step, not covered by graphs
constexpr std::size_t kPrompt = 129;    // all but one are in the prefix cache
constexpr std::size_t kNew = 33;        // the first comes with the prompt; 32 are decode steps

/// The seconds that decode steps of `batch` sequences took, and how they were spent.
struct Steps {
  double step_us;
  double outside_us;
};

Steps decode(const Model& model, Engine& engine, unsigned batch, unsigned seed) {
  std::vector<Request> requests(batch);
  for (unsigned i = 0; i < batch; ++i) {
    requests[i].tokens = random_tokens(model, kPrompt, seed * batch + i);
    requests[i].max_tokens = 1;
    requests[i].ignores_end = true;
  }
  engine.generate(requests);  // puts the prompts into the prefix cache
  for (Request& request : requests) request.max_tokens = kNew;
  engine.wait_until_idle();
  const EngineStats before = engine.stats();
  engine.generate(requests);
  engine.wait_until_idle();
  const EngineStats after = engine.stats();
  const auto steps = static_cast<double>(after.steps - before.steps);
  const double inside = after.seconds_busy - before.seconds_busy;
  const double outside = after.seconds_idle - before.seconds_idle;
  return {(inside + outside) / steps * 1e6, outside / steps * 1e6};
}

void run_decode(Run& run) {
  if (is_synthetic(run)) return run_synthetic_decode(run);
  const Model model = model_of(run);
  EngineOptions options;
  options.device = run.device;
  options.context = std::min<std::size_t>(model.context(), 512);
  Engine engine(model, options);
  const double bandwidth = attacca::roofline::read_bandwidth(run.device);
  run.note(
      fmt::format("floor: the weights and the keys and values of {} tokens of context a "
                  "sequence, read at the {:.1f} GB/s this machine's memory gives",
                  kPrompt + kNew / 2, bandwidth / 1e9));
  const EngineMemory memory = engine.memory();
  for (const unsigned batch : {1u, 2u, 4u, 8u}) {
    unsigned seed = 1;
    std::vector<double> outside;
    const auto samples =
        run.interleave(fmt::format("batch {}", batch), run.is_quick() ? 3 : 11, {[&] {
                         const Steps steps = decode(model, engine, batch, seed++);
                         outside.push_back(steps.outside_us);
                         return steps.step_us;
                       }});
    const double bytes = static_cast<double>(memory.weights_per_step) +
                         static_cast<double>(batch * memory.kv_per_token * (kPrompt + kNew / 2));
    Row row{.name = "decode step", .params = {{"batch", batch}}, .value = samples[0]};
    row.floor = bytes / bandwidth * 1e6;
    if (batch == 1 && !run.device.is_cuda()) row.limit = *row.floor / kFloorGate;
    run.add(row);
    Row engine_row{
        .name = "outside graphs", .params = {{"batch", batch}}, .value = summarize(outside)};
    engine_row.baseline = samples[0].median;
    if (batch == 8) engine_row.limit = kOverheadGate * samples[0].median;
    run.add(engine_row);
  }
}

const Registered registered{{.name = "decode",
                             .question = "how close does a decode step come to the memory floor?",
                             .needs = Needs::either,
                             .run = run_decode,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
