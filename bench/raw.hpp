// raw.hpp: the raw CUDA API with owners and error checks and nothing else. Baselines are written in
// it. Only for files inside `#if ATTACCA_WITH_CUDA`.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <attacca/device.hpp>
#include <attacca/error.hpp>
#include <attacca/memory.hpp>

#include <memory>
#include <source_location>
#include <string>

namespace bench {

inline void check(cudaError_t result,
                  std::source_location where = std::source_location::current()) {
  if (result == cudaSuccess) return;
  throw attacca::DeviceError(fmt::format("{}:{}: {}: {}", where.file_name(), where.line(),
                                         cudaGetErrorName(result), cudaGetErrorString(result)));
}

struct Destroy {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
  void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using RawGraph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy>;
using RawExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy>;
using RawEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy>;

inline RawGraph make_raw_graph() {
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0));
  return RawGraph(graph);
}

inline RawExec instantiate(const RawGraph& graph, unsigned long long flags = 0) {
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph.get(), flags));
  return RawExec(exec);
}

/// One block of one warp, the grid of all kernels of the GPU benchmarks.
inline constexpr attacca::Grid kSmallGrid{{1, 1, 1}, {32, 1, 1}};

/// Adds a kernel on the small grid, after `producer` unless that is null.
inline cudaGraphNode_t add_kernel(cudaGraph_t graph, cudaGraphNode_t producer, const void* function,
                                  void** args, bool is_programmatic = false) {
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeKernel;
  params.kernel.func = const_cast<void*>(function);
  params.kernel.gridDim = dim3(1);
  params.kernel.blockDim = dim3(32);
  params.kernel.kernelParams = args;
  cudaGraphEdgeData edge{};
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  edge.type = cudaGraphDependencyTypeProgrammatic;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddNode(&node, graph, producer ? &producer : nullptr,
                         producer && is_programmatic ? &edge : nullptr, producer ? 1 : 0, &params));
  return node;
}

/// The setup of a GPU benchmark: the device made current, a stream, a cell to write to.
struct Gpu {
  explicit Gpu(const attacca::Device& on)
      : device(make_current(on)),
        stream(on),
        native(static_cast<cudaStream_t>(stream.native())),
        cells(on, std::vector<unsigned>(1024, 0)) {}

  /// Microseconds of device time that the work enqueued by `work` takes.
  template <class F>
  double device_microseconds(F&& work) {
    check(cudaEventRecord(first_.get(), native));
    work();
    check(cudaEventRecord(last_.get(), native));
    check(cudaEventSynchronize(last_.get()));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, first_.get(), last_.get()));
    return milliseconds * 1000.0;
  }
  void synchronize() const { check(cudaStreamSynchronize(native)); }
  void launch(const RawExec& exec) const { check(cudaGraphLaunch(exec.get(), native)); }

  /// Failed device code is silent, so this throws unless the first cell was touched `touches` times
  /// since the last call.
  void expect_touches(unsigned touches) {
    const unsigned seen = cells.read().front();
    cells.write(std::vector<unsigned>(cells.size(), 0));
    if (seen != touches)
      throw attacca::Error(fmt::format("kernels ran {} times instead of {}", seen, touches));
  }

  attacca::Device device;
  attacca::Stream stream;
  cudaStream_t native;
  attacca::Buffer<unsigned> cells;  // zero at first

 private:
  static const attacca::Device& make_current(const attacca::Device& on) {
    check(cudaSetDevice(std::stoi(on.name().substr(std::string("cuda:").size()))));
    return on;
  }
  static RawEvent make_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event));
    return RawEvent(event);
  }
  RawEvent first_ = make_event();
  RawEvent last_ = make_event();
};

}  // namespace bench
