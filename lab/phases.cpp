// phases.cpp: where the time of a persistent step goes: for each kind of phase, how long blocks
// wait for the phases before, and how long they work.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <attacca/attacca.hpp>

#include "kernels/random_fill.hpp"
#include "lab.hpp"
#include "model/shapes.hpp"
#include "step/persistent_step.hpp"
#include "step/step.hpp"
#include "step/streamed_step.hpp"

namespace attacca::lab {

namespace {

using kernels::Phase;
using kernels::PhaseKind;
using kernels::PhaseTime;

constexpr std::uint32_t kContext = 512;
constexpr std::uint32_t kPageSize = 16;
constexpr std::uint32_t kStride = kContext / kPageSize + 1;
constexpr int kLaunches = 20;

/// The name of a phase: the part of a layer that it is.
std::string name_of(const Phase& phase, std::size_t in_layer) {
  static constexpr const char* kNames[] = {"qkv", "attention", "output", "gate and up", "down"};
  if (phase.kind == PhaseKind::embed) return "embed";
  return phase.is_for_logits ? "logits" : kNames[in_layer];
}

struct Row {
  std::string name;
  double phases = 0, waited = 0, worked = 0, longest = 0, shortest_wait = 0;
};

void print(const std::vector<Phase>& phases, const std::vector<PhaseTime>& times) {
  const std::size_t blocks = times.size() / phases.size();
  std::vector<Row> rows;
  for (std::size_t at = 0; at < phases.size(); ++at) {
    const std::string name = name_of(phases[at], (at + 4) % 5);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.name == name; });
    if (row == rows.end()) row = rows.insert(rows.end(), Row{name});
    double waited = 0, worked = 0, longest = 0, shortest = 1e9, workers = 0;
    for (std::size_t block = 0; block < blocks; ++block) {
      const PhaseTime& time = times[block * phases.size() + at];
      if (time.waited == 0 && phases[at].kind != PhaseKind::embed) continue;
      ++workers;
      waited += time.waited;
      worked += time.worked;
      longest = std::max<double>(longest, time.worked);
      shortest = std::min<double>(shortest, time.waited);
    }
    if (workers == 0) continue;
    ++row->phases;
    row->waited += waited / workers;
    row->worked += worked / workers;
    row->longest += longest;
    row->shortest_wait += shortest;
  }
  std::printf("cycles of a phase, mean over its blocks and layers\n");
  std::printf("%-12s %8s %10s %10s %10s %10s\n", "phase", "phases", "waited", "least", "worked",
              "longest");
  for (const Row& row : rows)
    std::printf("%-12s %8.0f %10.0f %10.0f %10.0f %10.0f\n", row.name.c_str(), row.phases,
                row.waited / row.phases, row.shortest_wait / row.phases, row.worked / row.phases,
                row.longest / row.phases);
}

}  // namespace

void time_phases(const char* shape_name, std::uint32_t count) {
  const Device device = Device::cuda(0);
  const model::ModelConfig config = model::shape_called(shape_name);
  const model::Weights weights(config, device, 1);
  const step::KvPool kv(device, config, {count * kStride, kPageSize, kernels::KvType::bf16});
  const Stream stream(device);
  const kernels::RandomFillArgs fill{kv.data(), kernels::TensorType::bf16, kv.bytes() / 2, 3, 1};
  stream.kernel(kernels::random_fill(), grid_of(fill, true), fill);
  std::vector<std::int32_t> rows(count), positions(count, kContext), tables(count * kStride);
  for (std::uint32_t i = 0; i < count; ++i) rows[i] = static_cast<std::int32_t>(i);
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = static_cast<std::int32_t>(i);
  const Buffer<std::int32_t> on_rows(device, rows), on_positions(device, positions),
      on_tables(device, tables);
  const Buffer<std::uint32_t> counts(device, std::vector<std::uint32_t>{count});
  const step::StepShape shape{count, count, true};
  const step::StepMemory memory(device, config, weights, kv,
                                {.largest = shape, .slots = count, .table_stride = kStride},
                                {.tokens = on_rows.data(),
                                 .positions = on_positions.data(),
                                 .slots = on_rows.data(),
                                 .token_count = counts.data(),
                                 .gather = on_rows.data(),
                                 .row_count = counts.data(),
                                 .tables = on_tables.data()});
  step::Chain chain(device);
  emit_streamed(chain, memory, shape);
  if (const std::string why = why_not_persistent(chain); !why.empty()) {
    std::printf("%s, %u rows: no persistent step: %s\n", shape_name, count, why.c_str());
    return;
  }
  const std::vector<Phase> phases = phases_of(chain, step::persistent_range(chain));
  const step::PersistentSteps steps(device);
  steps.join(chain);
  const step::Link& link = chain.links().front();
  auto args = *static_cast<const kernels::PersistentStepArgs*>(link.arguments.data());
  const Kernel<kernels::PersistentStepArgs> kernel(*link.kernel);
  const Buffer<PhaseTime> times(device, std::vector<PhaseTime>(link.grid.blocks.x * phases.size()));
  args.times = const_cast<PhaseTime*>(times.data());
  for (int launch = 0; launch < kLaunches; ++launch) stream.kernel(kernel, link.grid, args);
  stream.synchronize();
  std::printf("%s, %u rows, context %u: %zu phases, %u blocks\n", shape_name, count, kContext,
              phases.size(), link.grid.blocks.x);
  print(phases, times.read());
}

}  // namespace attacca::lab
