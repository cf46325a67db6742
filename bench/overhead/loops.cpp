// loops.cpp: the device time of one pass of a loop that runs without the host: a WHILE node and a
// graph that relaunches itself, each against the same by hand, and every form that a Loop can take.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>
#include <attacca/loop.hpp>

#include <array>

#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

using attacca::Condition;
using attacca::Device;
using attacca::Graph;
using attacca::Loop;
using attacca::LoopForm;

constexpr double kGate = 1.05;
// Measured on an H200; see docs/benchmarks.md.
constexpr double kNodeMicroseconds = 0.75;
constexpr double kWhileMicroseconds = 3.3;
constexpr double kRelaunchMicroseconds = 3.5;
constexpr unsigned kCellsApart = 64;  // words, so that each cell has its own cache line

struct Shape {
  unsigned kernels;  // in a pass, including the one that counts
  unsigned passes;
  unsigned* cell;
  unsigned* counter;
};

/// A line of touches; returns the last node, if there is one.
std::optional<attacca::KernelNode<kernels::TouchArgs>> add_touches(Graph& graph,
                                                                   const Shape& shape) {
  std::optional<attacca::KernelNode<kernels::TouchArgs>> last;
  for (unsigned at = 1; at < shape.kernels; ++at) {
    const auto node = graph.kernel(kernels::touch, kSmallGrid, {shape.cell, 1});
    if (last) node.after(*last);
    last.emplace(node);
  }
  return last;
}
cudaGraphNode_t add_touches(cudaGraph_t graph, const Shape& shape) {
  cudaGraphNode_t last = nullptr;
  for (unsigned at = 1; at < shape.kernels; ++at) {
    kernels::TouchArgs args{shape.cell, 1};
    void* pointers[] = {&args};
    last = add_kernel(graph, last, kernels::raw.touch, pointers);
  }
  return last;
}

Loop::Body body_of(const Shape& shape) {
  return [shape](Graph& body, Condition again) {
    const auto last = add_touches(body, shape);
    const auto node = body.kernel(kernels::count, kSmallGrid, {again, shape.counter, shape.passes});
    if (last) node.after(*last);
  };
}

attacca::Exec while_exec(const Device& device, const Shape& shape) {
  Graph graph(device, "while");
  graph.while_("passes", body_of(shape));
  return graph.instantiate();
}
RawExec raw_while_exec(const RawGraph& graph, const Shape& shape) {
  cudaGraphConditionalHandle again{};
  check(cudaGraphConditionalHandleCreate(&again, graph.get(), 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = again;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddNode(&node, graph.get(), nullptr, nullptr, 0, &params));
  const cudaGraph_t body = params.conditional.phGraph_out[0];
  unsigned* counter = shape.counter;
  unsigned passes = shape.passes;
  void* args[] = {&again, &counter, &passes};
  add_kernel(body, add_touches(body, shape), kernels::raw.count, args);
  return instantiate(graph);
}

attacca::DeviceExec relaunching_exec(const Device& device, const Shape& shape) {
  Graph graph(device, "relaunching");
  const auto last = add_touches(graph, shape);
  const auto node = graph.kernel(kernels::relaunch, kSmallGrid, {shape.counter, shape.passes});
  if (last) node.after(*last);
  return graph.instantiate_for_device();
}
RawExec raw_relaunching_exec(const RawGraph& graph, const Shape& shape, cudaStream_t stream) {
  kernels::RelaunchArgs args{shape.counter, shape.passes};
  void* pointers[] = {&args};
  add_kernel(graph.get(), add_touches(graph.get(), shape), kernels::raw.relaunch, pointers);
  RawExec exec = instantiate(graph, cudaGraphInstantiateFlagDeviceLaunch);
  check(cudaGraphUpload(exec.get(), stream));
  return exec;
}
/// The self-relaunch form of a Loop by hand: any kernel of the body may set the condition, so an
/// extra node checks it at the end.
RawExec raw_asking_exec(const RawGraph& graph, const Shape& shape, cudaStream_t stream) {
  unsigned* again = shape.counter + kCellsApart;
  unsigned* counter = shape.counter;
  unsigned passes = shape.passes;
  void* count[] = {&again, &counter, &passes};
  void* ask[] = {&again};
  const cudaGraphNode_t counted =
      add_kernel(graph.get(), add_touches(graph.get(), shape), kernels::raw.count_in, count);
  add_kernel(graph.get(), counted, kernels::raw.ask, ask);
  RawExec exec = instantiate(graph, cudaGraphInstantiateFlagDeviceLaunch);
  check(cudaGraphUpload(exec.get(), stream));
  return exec;
}

/// Instances of one loop by hand.
struct RawLoop {
  RawGraph graph = make_raw_graph();
  RawExec exec;
};
template <class Make>
InTurn<RawLoop> raw_loops(Make&& make) {
  return InTurn<RawLoop>([&] {
    auto loop = std::make_shared<RawLoop>();
    loop->exec = make(loop->graph);
    return loop;
  });
}
template <class T, class Make>
InTurn<T> instances(Make&& make) {
  return InTurn<T>([&] { return std::make_shared<T>(make()); });
}

void measure(Run& run, Gpu& gpu, const Shape& shape) {
  auto with_while = instances<attacca::Exec>([&] { return while_exec(gpu.device, shape); });
  auto raw_with_while =
      raw_loops([&](const RawGraph& graph) { return raw_while_exec(graph, shape); });
  auto relaunching =
      instances<attacca::DeviceExec>([&] { return relaunching_exec(gpu.device, shape); });
  auto raw_relaunching = raw_loops(
      [&](const RawGraph& graph) { return raw_relaunching_exec(graph, shape, gpu.native); });
  auto raw_asking =
      raw_loops([&](const RawGraph& graph) { return raw_asking_exec(graph, shape, gpu.native); });
  Loop loop(gpu.device, "passes", body_of(shape));
  loop.with(kernels::touch_and_count);
  constexpr std::array forms{LoopForm::while_node, LoopForm::self_relaunch,
                             LoopForm::persistent_kernel, LoopForm::host_loop};
  std::vector<InTurn<attacca::LoopExec>> loops;
  for (const LoopForm form : forms)
    loops.push_back(instances<attacca::LoopExec>([&] { return loop.instantiate(form); }));

  unsigned launches = 0;
  std::vector<std::function<double()>> variants;
  const auto per_pass = [&](auto launch_one) {
    variants.push_back([&gpu, &shape, &launches, launch_one] {
      ++launches;
      return gpu.device_microseconds(launch_one) / shape.passes;
    });
  };
  per_pass([&] { with_while.next().launch(gpu.stream); });
  per_pass([&] { gpu.launch(raw_with_while.next().exec); });
  per_pass([&] { relaunching.next().start(gpu.stream); });
  per_pass([&] { gpu.launch(raw_relaunching.next().exec); });
  per_pass([&] { gpu.launch(raw_asking.next().exec); });
  for (auto& each : loops) per_pass([&] { each.next().launch(gpu.stream); });
  const auto times = run.interleave(fmt::format("{} kernels a pass", shape.kernels), 15, variants);
  gpu.stream.synchronize();
  gpu.expect_touches(launches * shape.passes * (shape.kernels - 1));

  const nlohmann::ordered_json params{{"kernels", shape.kernels}, {"passes", shape.passes}};
  const auto add = [&](const char* name, const Summary& our, const Summary& their, double extra) {
    Row row = compared(name, params, our, their);
    row.floor = shape.kernels * kNodeMicroseconds + extra;
    row.limit = their.median * kGate;
    run.add(std::move(row));
  };
  add("WHILE node", times[0], times[1], kWhileMicroseconds);
  add("self-relaunch", times[2], times[3], kRelaunchMicroseconds);
  add("Loop, while node", times[5], times[1], kWhileMicroseconds);
  add("Loop, self-relaunch", times[6], times[4], kRelaunchMicroseconds + kNodeMicroseconds);
  run.add(Row{"Loop, persistent kernel", params, times[7]});
  run.add(Row{"Loop, host loop", params, times[8]});
}

void loops(Run& run) {
  Gpu gpu(run.device);
  unsigned* cells = gpu.cells.data();
  for (const auto& [kernels, passes] : {std::pair{1u, 2000u}, {10u, 2000u}, {100u, 500u}})
    measure(run, gpu, {kernels, passes, cells, cells + kCellsApart});
}

#else
constexpr auto loops = kNoRun;
#endif

const Registered registered{
    {"overhead-loops", "what does one pass of a loop on the device cost, in each of its forms?",
     Needs::cuda, loops, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
