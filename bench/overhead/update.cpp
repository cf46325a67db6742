// update.cpp: the host time of changing an executable graph: one node, all nodes, its shape.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/core.h>
#include <attacca/capture.hpp>
#include <optional>

#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

constexpr unsigned kNodes = 100;
constexpr int kSamples = 201;
constexpr double kSymbolGate = 2.0;  // times setting a node of a graph without symbols
constexpr double kUpdateGate = 1.3;  // times the same by hand

/// Measures both in turn and adds the row. `gate` is the most that ours may take, relative to the
/// same by hand.
void compare(Run& run, const std::string& name, const std::function<double()>& ours,
             const std::function<double()>& theirs, std::optional<double> gate = {}) {
  const auto times = run.interleave(name, kSamples, {ours, theirs});
  Row row = compared(name, {{"nodes", kNodes}}, times[0], times[1]);
  if (gate) row.limit = times[1].median * *gate;
  run.add(std::move(row));
}

void raw_update(const RawExec& exec, cudaGraph_t graph) {
  cudaGraphExecUpdateResultInfo info{};
  check(cudaGraphExecUpdate(exec.get(), graph, &info));
}

/// The parameters of a `touch` node, in the driver's form.
struct RawParams {
  explicit RawParams(const kernels::TouchArgs& of) : args(of) {
    params.func = const_cast<void*>(kernels::raw.touch);
    params.gridDim = dim3(1);
    params.blockDim = dim3(32);
    params.kernelParams = pointers;
  }
  RawParams(const RawParams&) = delete;
  kernels::TouchArgs args;
  void* pointers[1] = {&args};
  cudaKernelNodeParams params{};
};

void must_be_in_place(const attacca::UpdateReport& report) {
  if (report.was_reinstantiated)
    throw attacca::Error(fmt::format("an update was not made in place: {}", report.reason));
}

/// One chain in attacca and by hand. Its nodes are set one after another; the times are per node.
class SetNodes {
 public:
  SetNodes(const attacca::Device& device, const ChainOf& of)
      : chain_(device, of),
        exec_(chain_.graph.instantiate()),
        raw_chain_(of),
        raw_exec_(instantiate(raw_chain_.graph)) {}

  double ours() {
    ++value_;
    const double sum = microseconds([&] {
      for (unsigned at = 0; at < chain_.of.nodes; ++at)
        must_be_in_place(exec_.set(chain_.nodes[at], changed(chain_.of.args(at))));
    });
    return sum / chain_.of.nodes;
  }
  double theirs() {
    ++value_;
    const double sum = microseconds([&] {
      for (unsigned at = 0; at < chain_.of.nodes; ++at) {
        RawParams params(changed(raw_chain_.of.args(at)));
        check(cudaGraphExecKernelNodeSetParams(raw_exec_.get(), raw_chain_.nodes[at],
                                               &params.params));
      }
    });
    return sum / chain_.of.nodes;
  }

 private:
  kernels::TouchArgs changed(kernels::TouchArgs args) const {
    args.add = value_;
    return args;
  }
  Chain chain_;
  attacca::Exec exec_;
  RawChain raw_chain_;
  RawExec raw_exec_;
  unsigned value_ = 0;
};

void set_nodes(Run& run, Gpu& gpu) {
  SetNodes plain(gpu.device, ChainOf{kNodes, gpu.cells.data()});
  compare(
      run, "set one node", [&] { return plain.ours(); }, [&] { return plain.theirs(); });
  // Conditions and memory in a graph must not make setting its nodes expensive.
  for (const Extra extra : {Extra::allocation, Extra::condition}) {
    ChainOf of{kNodes, gpu.cells.data()};
    of.extra = extra;
    SetNodes with(gpu.device, of);
    const std::string name = fmt::format("set one node, the graph has {}", name_of(extra));
    const auto times = run.interleave(
        name, kSamples,
        {[&] { return with.ours(); }, [&] { return with.theirs(); }, [&] { return plain.ours(); }});
    Row row = compared(name, {{"nodes", kNodes}}, times[0], times[1]);
    row.limit = times[2].median * kSymbolGate;
    run.add(std::move(row));
  }
}

/// Updates between existing graphs in which all nodes differ. attacca compares, copies and updates;
/// by hand the nodes of the one source graph are set and the executable is updated from it.
void update_built(Run& run, Gpu& gpu) {
  const ChainOf of[] = {{kNodes, gpu.cells.data(), attacca::EdgeKind::full, 1, 1},
                        {kNodes, gpu.cells.data(), attacca::EdgeKind::full, 2, 2}};
  const Chain chains[] = {{gpu.device, of[0]}, {gpu.device, of[1]}};
  attacca::Exec exec = chains[0].graph.instantiate();
  const RawChain raw_chain(of[0]);
  const RawExec raw_exec = instantiate(raw_chain.graph);
  unsigned round = 0;
  const auto ours = [&] {
    ++round;
    return microseconds([&] { must_be_in_place(exec.update(chains[round % 2].graph)); });
  };
  unsigned raw_round = 0;
  const auto theirs = [&] {
    ++raw_round;
    return microseconds([&] {
      for (unsigned at = 0; at < kNodes; ++at) {
        RawParams params(of[raw_round % 2].args(at));
        check(cudaGraphKernelNodeSetParams(raw_chain.nodes[at], &params.params));
      }
      raw_update(raw_exec, raw_chain.graph.get());
    });
  };
  compare(run, fmt::format("update {0} nodes of {0}, graph already built", kNodes), ours, theirs,
          kUpdateGate);
}

/// Builds a new graph of the same shape and updates from it.
void rebuild(Run& run, Gpu& gpu, const char* name, bool all_differ) {
  unsigned value = 1;
  const auto next = [&] {
    ++value;
    return ChainOf{kNodes, gpu.cells.data(), attacca::EdgeKind::full, all_differ ? value : 1,
                   value};
  };
  attacca::Exec exec = Chain(gpu.device, next()).graph.instantiate();
  const RawChain first(next());
  const RawExec raw_exec = instantiate(first.graph);
  const auto ours = [&] {
    return microseconds([&] { must_be_in_place(exec.update(Chain(gpu.device, next()).graph)); });
  };
  const auto theirs = [&] {
    return microseconds([&] { raw_update(raw_exec, RawChain(next()).graph.get()); });
  };
  compare(run, name, ours, theirs);
}

/// The same with stream code that is captured again.
void recapture(Run& run, Gpu& gpu) {
  unsigned value = 0;
  const auto capture_ours = [&] {
    ++value;
    return attacca::capture(gpu.stream, [&](attacca::StreamRef stream) {
      for (unsigned at = 0; at < kNodes; ++at)
        stream.kernel(kernels::touch, kSmallGrid, {gpu.cells.data(), value});
    });
  };
  const auto capture_theirs = [&] {
    ++value;
    check(cudaStreamBeginCapture(gpu.native, cudaStreamCaptureModeThreadLocal));
    for (unsigned at = 0; at < kNodes; ++at) {
      kernels::TouchArgs args{gpu.cells.data(), value};
      void* pointers[] = {&args};
      check(cudaLaunchKernel(kernels::raw.touch, dim3(1), dim3(32), pointers, 0, gpu.native));
    }
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(gpu.native, &graph));
    return RawGraph(graph);
  };
  attacca::Exec exec = capture_ours().instantiate();
  const RawGraph first = capture_theirs();
  const RawExec raw_exec = instantiate(first);
  const auto ours = [&] {
    return microseconds([&] { must_be_in_place(exec.update(capture_ours())); });
  };
  const auto theirs = [&] {
    return microseconds([&] { raw_update(raw_exec, capture_theirs().get()); });
  };
  compare(run, "recapture and update, all nodes differ", ours, theirs);
}

/// A graph of another shape, which cannot be updated in place.
void reinstantiate(Run& run, Gpu& gpu) {
  const ChainOf shorter{kNodes - 1, gpu.cells.data()};
  const ChainOf longer{kNodes, gpu.cells.data()};
  const Chain chains[] = {{gpu.device, shorter}, {gpu.device, longer}};
  attacca::Exec exec = chains[1].graph.instantiate();
  RawChain raw_chain(longer);
  RawExec raw_exec = instantiate(raw_chain.graph);
  const auto ours = [&] {
    const double sum = microseconds([&] {
      for (const Chain& chain : chains) exec.update(chain.graph);
    });
    return sum / 2;
  };
  const auto theirs = [&] {
    const double sum = microseconds([&] {
      for (const ChainOf& of : {shorter, longer}) {
        RawChain next(of);
        raw_exec = instantiate(next.graph);
        raw_chain = std::move(next);
      }
    });
    return sum / 2;
  };
  compare(run, "re-instantiate in another shape", ours, theirs);
}

void update(Run& run) {
  Gpu gpu(run.device);
  set_nodes(run, gpu);
  update_built(run, gpu);
  rebuild(run, gpu, "rebuild and update, one node differs", false);
  rebuild(run, gpu, "rebuild and update, all nodes differ", true);
  recapture(run, gpu);
  reinstantiate(run, gpu);
}

#else
constexpr auto update = kNoRun;
#endif

const Registered registered{{"overhead-update", "what does changing an executable graph cost?",
                             Needs::cuda, update, "it measures calls of CUDA"}};

}  // namespace

}  // namespace bench
