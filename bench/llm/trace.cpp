// trace.cpp: what recording costs: a decode step of the embedded model without a tracer, with one
// that sees launches of graphs, and with one that sees every node.
#include <fmt/core.h>

#include <attacca/trace.hpp>
#include <optional>

#include "harness.hpp"
#include "llm/synthetic_step.hpp"
#include "model/checkpoint.hpp"
#include "model/embedded.hpp"

namespace bench {

namespace {

using namespace attacca;

constexpr double kGraphGate = 1.03;  // of a step without a tracer
constexpr unsigned kContext = 64;
constexpr int kSamples = 101;
constexpr unsigned kSteps = 20;  // of a sample

void run_trace(Run& run) {
  const model::Checkpoint checkpoint = model::open_embedded();
  const SyntheticBatch batch{{.context = kContext}};
  const SyntheticModel model(checkpoint, run.device, pages_of(batch), kernels::KvType::f32);
  const SyntheticStep step(model, batch);
  const Launch launch = step.launch(GraphMode::full);
  const DeviceClock clock = device_clock(run.device);
  const auto timed = [&](std::optional<TraceLevel> level) {
    return [&, level] {
      std::optional<Tracer> tracer;
      if (level) tracer.emplace(run.device, *level);
      return clock(launch, kSteps);
    };
  };
  const std::vector<Summary> times = run.interleave(
      "tracing", kSamples, {timed({}), timed(TraceLevel::graph), timed(TraceLevel::node)});
  const auto nodes = step.graph().node_count();
  run.add({.name = "no trace", .params = {{"nodes", nodes}}, .value = times[0]});
  Row graphs = compared("a slice for each graph", {{"nodes", nodes}}, times[1], times[0]);
  graphs.limit = times[0].median * kGraphGate;
  run.add(std::move(graphs));
  run.add(compared("a slice for each node", {{"nodes", nodes}}, times[2], times[0]));
  run.note(fmt::format("a decode step of the embedded model, {} tokens of context", kContext));
}

const Registered registered{{"trace", "what does recording a trace cost?", Needs::host, run_trace,
                             "nodes are recorded on the host only", true}};

}  // namespace

}  // namespace bench
