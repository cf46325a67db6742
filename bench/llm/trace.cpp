// trace.cpp: what recording and writing cost: a decode step without a tracer, with one that sees
// launches of graphs, and with one that sees every node; launched by the host, and in a loop on the
// device, whose passes record themselves. On the host it is the embedded model, on a GPU a 1B
// shape.
#include <fmt/core.h>

#include <attacca/trace.hpp>
#include <optional>

#include "harness.hpp"
#include "llm/synthetic_step.hpp"
#include "loop/idle_kernels.hpp"
#include "model/checkpoint.hpp"
#include "model/embedded.hpp"
#include "model/shapes.hpp"

namespace bench {

namespace {

using namespace attacca;

constexpr double kGraphGate = 1.03;  // of a step without a tracer
constexpr unsigned kContext = 64;
constexpr int kSamples = 101;
constexpr int kGpuSamples = 31;
constexpr unsigned kSteps = 20;  // of a sample
constexpr std::size_t kWrittenNodes = 100'000;
constexpr double kWriteGate = 5e6;  // microseconds

/// kSteps steps in a WHILE, ready to launch.
class StepLoop {
 public:
  StepLoop(const SyntheticStep& step, const Device& device)
      : start_(device, std::vector<unsigned>{kSteps}),
        left_(device, 1),
        graph_(device, "loop of steps") {
    const auto reset = graph_.copy(left_.data(), start_.data(), sizeof(unsigned));
    graph_
        .while_("steps",
                [&](Graph& pass, Condition again) {
                  const auto work = pass.child("step", step.graph());
                  pass.kernel(loop::count_passes(), Grid{}, {left_.data(), again}).after(work);
                })
        .after(reset);
  }
  /// With the records of a tracer of this level, if any.
  Exec instantiate(std::optional<TraceLevel> level) const {
    std::optional<Tracer> tracer;
    if (level) tracer.emplace(graph_.device(), *level);
    return graph_.instantiate();
  }

 private:
  Buffer<unsigned> start_, left_;
  Graph graph_;
};

/// Rows of one way to run steps: without a tracer, and with one of each level.
void compare(Run& run, const std::string& what, std::size_t nodes,
             const std::function<std::function<double()>(std::optional<TraceLevel>)>& timed) {
  const std::vector<Summary> times =
      run.interleave(what, run.device.is_cuda() ? kGpuSamples : kSamples,
                     {timed({}), timed(TraceLevel::graph), timed(TraceLevel::node)});
  const nlohmann::ordered_json params{{"steps", what}, {"nodes", nodes}};
  run.add({.name = "no trace", .params = params, .value = times[0]});
  Row graphs = compared("a slice for each graph", params, times[1], times[0]);
  graphs.limit = times[0].median * kGraphGate;
  run.add(std::move(graphs));
  run.add(compared("a slice for each node", params, times[2], times[0]));
}

/// A trace of `nodes` executions on two threads, as steps of a model leave it.
Trace long_trace(std::size_t nodes) {
  Trace trace{.tracks = {{"host", "thread 1"}, {"host", "thread 2"}}, .slices = {}};
  for (std::size_t at = 0; at < nodes; ++at)
    trace.slices.push_back({.track = at % 2,
                            .name = fmt::format("layer {} gate and up", at / 2 % 32),
                            .begin_ns = static_cast<std::int64_t>(at / 2) * 1500,
                            .end_ns = static_cast<std::int64_t>(at / 2) * 1500 + 1000,
                            .graph = "decode step of 8",
                            .launch = at / 320 + 1,
                            .cost = {.flops = 2.5e6, .bytes = 1.25e6}});
  return trace;
}

/// Rows of the time that each format takes.
void compare_formats(Run& run) {
  const std::size_t nodes = run.is_quick() ? kWrittenNodes / 50 : kWrittenNodes;
  const Trace trace = long_trace(nodes);
  const std::pair<const char*, std::function<std::string()>> formats[] = {
      {"JSON", [&] { return to_chrome_json(trace); }},
      {"Perfetto", [&] { return to_perfetto(trace); }},
      {"a page", [&] { return to_trace_page(trace, "long"); }}};
  for (const auto& [name, write] : formats) {
    std::size_t bytes = 0;
    const auto timed = [&, &write = write] {
      return microseconds([&] { bytes = write().size(); });
    };
    const Summary time = run.interleave(name, 5, {timed})[0];
    Row row{
        .name = fmt::format("written as {}", name),
        .params = {{"steps", "none"}, {"nodes", nodes}, {"MB", static_cast<double>(bytes) / 1e6}},
        .value = time};
    row.limit = kWriteGate;
    run.add(std::move(row));
  }
}

void run_trace(Run& run) {
  const bool is_gpu = run.device.is_cuda();
  const SyntheticBatch batch{{.context = kContext}};
  const model::Checkpoint checkpoint = model::open_embedded();
  const SyntheticModel model =
      is_gpu ? SyntheticModel(model::shape_called("llama-1b"), run.device, pages_of(batch))
             : SyntheticModel(checkpoint, run.device, pages_of(batch), kernels::KvType::f32);
  const SyntheticStep step(model, batch);
  const std::size_t nodes = step.graph().node_count();
  const DeviceClock clock = device_clock(run.device);
  // A tracer lives while it is measured, as it would in a program.
  const auto traced = [&](std::optional<TraceLevel> level, const std::function<double()>& time) {
    return [&run, level, time] {
      std::optional<Tracer> tracer;
      if (level) tracer.emplace(run.device, *level);
      return time();
    };
  };
  const Launch launch = step.launch(GraphMode::full);
  compare(run, "launched by the host", nodes, [&](std::optional<TraceLevel> level) {
    return traced(level, [&] { return clock(launch, kSteps); });
  });
  const StepLoop loop(step, run.device);
  compare(run, "in a loop on the device", nodes, [&](std::optional<TraceLevel> level) {
    const auto exec = std::make_shared<Exec>(loop.instantiate(level));
    return traced(level, [&clock, exec] {
      return clock([&](StreamRef stream) { exec->launch(stream); }, 1) / kSteps;
    });
  });
  compare_formats(run);
  run.note(fmt::format("a decode step of {}, {} tokens of context, {} steps a sample",
                       is_gpu ? "a 1B shape" : "the embedded model", kContext, kSteps));
  if (is_gpu) {
    const Tracer tracer(run.device);
    run.note(tracer.why_not().empty()
                 ? "CUPTI records nodes"
                 : "CUPTI does not record nodes, so both levels time launches: " +
                       tracer.why_not());
  }
}

const Registered registered{{.name = "trace",
                             .question = "what does it cost to record and to write a trace?",
                             .needs = Needs::either,
                             .run = run_trace,
                             .is_engine = true}};

}  // namespace

}  // namespace bench
