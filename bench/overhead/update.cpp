// update.cpp: the host time of changing an executable graph: one node, all nodes, its shape.
#include "harness.hpp"

#if ATTACCA_WITH_CUDA
#include <fmt/format.h>
#include <attacca/capture.hpp>

#include "chain.hpp"
#endif

namespace bench {

namespace {

#if ATTACCA_WITH_CUDA

constexpr unsigned kNodes = 100;
constexpr int kSamples = 201;

/// Measures both in turn and adds the row.
void compare(Run& run, const char* name, const std::function<double()>& ours,
             const std::function<double()>& theirs) {
  const auto times = run.interleave(name, kSamples, {ours, theirs});
  run.add(compared(name, {{"nodes", kNodes}}, times[0], times[1]));
}

void raw_update(const RawExec& exec, cudaGraph_t graph) {
  cudaGraphExecUpdateResultInfo info{};
  check(cudaGraphExecUpdate(exec.get(), graph, &info));
}

void must_be_in_place(const attacca::UpdateReport& report) {
  if (report.was_reinstantiated)
    throw attacca::Error(fmt::format("an update was not made in place: {}", report.reason));
}

/// One node after another; the time is of one.
void set_nodes(Run& run, Gpu& gpu) {
  const ChainOf of{kNodes, gpu.cells.data()};
  Chain chain(gpu.device, of);
  attacca::Exec exec = chain.graph.instantiate();
  RawChain raw_chain(of);
  const RawExec raw_exec = instantiate(raw_chain.graph);
  unsigned value = 0;
  const auto ours = [&] {
    ++value;
    const double sum = microseconds([&] {
      for (const auto& node : chain.nodes) must_be_in_place(exec.set(node, {of.cell, value}));
    });
    return sum / kNodes;
  };
  const auto theirs = [&] {
    ++value;
    const double sum = microseconds([&] {
      for (const cudaGraphNode_t node : raw_chain.nodes) {
        kernels::TouchArgs args{of.cell, value};
        void* pointers[] = {&args};
        cudaKernelNodeParams params{};
        params.func = const_cast<void*>(kernels::raw.touch);
        params.gridDim = dim3(1);
        params.blockDim = dim3(32);
        params.kernelParams = pointers;
        check(cudaGraphExecKernelNodeSetParams(raw_exec.get(), node, &params));
      }
    });
    return sum / kNodes;
  };
  compare(run, "set one node", ours, theirs);
}

/// A new graph of the same shape, built and handed over.
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

/// The same from stream code recorded anew.
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

/// A graph of another shape: nothing can be changed in place.
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
