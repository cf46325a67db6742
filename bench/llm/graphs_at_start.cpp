// graphs_at_start.cpp: builds the graphs of all default sizes on a shape and measures their time
// and memory.
#include "llm/graphs_at_start.hpp"

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <optional>

#include "engine/sizing.hpp"
#include "engine/step_runner.hpp"

namespace bench {

namespace {

using namespace attacca;
using Clock = std::chrono::steady_clock;

// The project's gates on an H200.
constexpr const char* kGatedShape = "llama-8b";
constexpr double kMostMilliseconds = 2000;
constexpr double kMostOfWeights = 0.01;

double mebi(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

void run_graphs_at_start(Run& run, const model::ModelConfig& config) {
  auto weights = std::make_shared<const model::Weights>(config, run.device, 1);
  llm::EngineOptions options;
  options.device = run.device;
  const schedule::Limits limits = engine::size_engine(config, engine::GpuWeights{}, options);
  std::optional<Clock::time_point> began;
  const auto progress = [&](std::string_view what, std::uint64_t, std::uint64_t) {
    if (what == "building graphs" && !began) began = Clock::now();
  };
  const engine::StepRunner runner(
      config, std::move(weights), run.device,
      {limits, options.graphs, engine::kernel_type(options.kv_type), options.overlap}, progress);
  const std::chrono::duration<double, std::milli> took = Clock::now() - began.value();

  const bool is_gated = run.device.is_cuda() && config.name == kGatedShape;
  const nlohmann::ordered_json params = {{"shape", config.name},
                                         {"graphs", llm::graph_mode_name(options.graphs)},
                                         {"sizes", limits.graph_count()}};
  Row time{.name = "graphs built at start",
           .params = params,
           .value = summarize({took.count()}),
           .unit = "ms"};
  if (is_gated) time.limit = kMostMilliseconds;
  run.add(time);
  const std::size_t weight_bytes =
      runner.weights().bytes_copied() + runner.weights().bytes_mapped();
  Row memory{.name = "memory pinned by graphs",
             .params = params,
             .value = summarize({mebi(runner.graph_bytes() + runner.graph_device_bytes())}),
             .unit = "MiB"};
  memory.params["of host"] = fmt::format("{:.1f} MiB", mebi(runner.graph_bytes()));
  memory.params["of weights"] =
      fmt::format("{:.2f} %", 100 * memory.value.median / mebi(weight_bytes));
  if (is_gated) memory.limit = kMostOfWeights * mebi(weight_bytes);
  run.add(memory);
}

}  // namespace bench
