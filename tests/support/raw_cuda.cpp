// raw_cuda.cpp: calls the CUDA runtime directly, without attacca; throws in a build without CUDA.
#include "support/raw_cuda.hpp"

#include <stdexcept>
#include <string>

namespace attacca::test {

#if defined(__CUDACC__)

namespace {

void check(cudaError_t result, const char* doing) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();
  throw std::runtime_error(std::string(doing) + ": " + cudaGetErrorString(result));
}

__global__ void raw_add_kernel(int* x, int value, std::size_t count) {
  const std::size_t at = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (at < count) x[at] += value;
}
__global__ void raw_affine_kernel(int* x, char factor, Pair pair, std::size_t count) {
  const std::size_t at = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (at < count) x[at] = x[at] * factor + pair.first + static_cast<int>(pair.second);
}
__global__ void raw_set_condition_kernel(unsigned long long handle, unsigned value, int* seen,
                                         int mark) {
  cudaGraphSetConditional(static_cast<cudaGraphConditionalHandle>(handle), value);
  *seen = mark;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaGraph_t graph_of(void* graph) { return static_cast<cudaGraph_t>(graph); }

unsigned blocks_for(std::size_t count) { return static_cast<unsigned>((count + 63) / 64); }

template <class... P>
cudaGraphNode_t add_raw_kernel(cudaGraph_t graph, const cudaGraphNode_t* after,
                               void (*function)(P...), unsigned blocks, P... args) {
  void* pointers[] = {&args...};
  cudaKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(function);
  params.gridDim = dim3(blocks);
  params.blockDim = dim3(64);
  params.kernelParams = pointers;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &params), "adding a kernel");
  return node;
}

cudaGraphNode_t add_raw_fill(cudaGraph_t graph, int* x, std::size_t count) {
  cudaMemsetParams params{};
  params.dst = x;
  params.elementSize = 4;
  params.width = count;
  params.height = 1;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &params), "adding a fill");
  return node;
}

}  // namespace

void (*const raw_affine)(int*, char, Pair, std::size_t) = &raw_affine_kernel;
void (*const raw_set_condition)(unsigned long long, unsigned, int*,
                                int) = &raw_set_condition_kernel;

void* raw_kernel_handle(const void* function) {
  cudaKernel_t kernel = nullptr;
  check(cudaGetKernel(&kernel, function), "asking for a cudaKernel_t");
  return kernel;
}

void launch_raw_add(void* cuda_stream, int* x, int value, std::size_t count) {
  raw_add_kernel<<<blocks_for(count), 64, 0, stream_of(cuda_stream)>>>(x, value, count);
  check(cudaGetLastError(), "launching raw_add_kernel");
}

RawStream::RawStream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "making a stream");
  stream_ = stream;
}
RawStream::~RawStream() { (void)cudaStreamDestroy(stream_of(stream_)); }
void RawStream::synchronize() { check(cudaStreamSynchronize(stream_of(stream_)), "synchronizing"); }
void RawStream::begin_capture() {
  check(cudaStreamBeginCapture(stream_of(stream_), cudaStreamCaptureModeThreadLocal),
        "beginning a capture");
}
void* RawStream::end_capture() {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_of(stream_), &graph), "ending a capture");
  return graph;
}

void* make_raw_graph(int* x, int* y, std::size_t count) {
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "making a graph");
  const cudaGraphNode_t fill = add_raw_fill(graph, y, count);
  const cudaGraphNode_t affine = add_raw_kernel(graph, &fill, &raw_affine_kernel, blocks_for(count),
                                                x, char{2}, Pair{1, 2.0}, count);
  cudaGraphNode_t copy = nullptr;
  check(cudaGraphAddMemcpyNode1D(&copy, graph, &affine, 1, y, x, count * sizeof(int),
                                 cudaMemcpyDeviceToDevice),
        "adding a copy");
  cudaGraph_t child = nullptr;
  check(cudaGraphCreate(&child, 0), "making a child graph");
  add_raw_kernel(child, nullptr, &raw_add_kernel, blocks_for(count), y, 1, count);
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddChildGraphNode(&node, graph, &copy, 1, child), "adding a child graph");
  check(cudaGraphDestroy(child), "destroying the child graph");
  return graph;
}

void* make_raw_graph_with_host_call(int* x) {
  cudaGraph_t graph = nullptr;
  check(cudaGraphCreate(&graph, 0), "making a graph");
  const cudaGraphNode_t fill = add_raw_fill(graph, x, 1);
  cudaHostNodeParams params{};
  params.fn = [](void*) {};
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddHostNode(&node, graph, &fill, 1, &params), "adding a host call");
  return graph;
}

std::size_t count_raw_nodes(void* cuda_graph) {
  std::size_t count = 0;
  check(cudaGraphGetNodes(graph_of(cuda_graph), nullptr, &count), "counting nodes");
  return count;
}

void run_raw_graph(void* cuda_graph, void* cuda_stream) {
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph_of(cuda_graph), 0), "instantiating");
  check(cudaGraphLaunch(exec, stream_of(cuda_stream)), "launching");
  check(cudaStreamSynchronize(stream_of(cuda_stream)), "synchronizing");
  check(cudaGraphExecDestroy(exec), "destroying");
}

void destroy_raw_graph(void* cuda_graph) { (void)cudaGraphDestroy(graph_of(cuda_graph)); }

void launch_raw_exec(void* cuda_graph_exec, void* cuda_stream) {
  check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(cuda_graph_exec), stream_of(cuda_stream)),
        "launching an exec");
}

void let_raw_wait(void* waiting_stream, void* stream) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  const cudaError_t recorded = cudaEventRecord(event, stream_of(stream));
  const cudaError_t waits = cudaStreamWaitEvent(stream_of(waiting_stream), event, 0);
  check(cudaEventDestroy(event), "destroying an event");
  check(recorded, "recording an event");
  check(waits, "waiting for an event");
}

void select_raw_device(int index) {
  if (cudaSetDevice(index) != cudaSuccess) throw std::runtime_error("cudaSetDevice failed");
}
int current_raw_device() {
  int index = -1;
  if (cudaGetDevice(&index) != cudaSuccess) throw std::runtime_error("cudaGetDevice failed");
  return index;
}
unsigned count_raw_processors() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, current_raw_device()), "reading what a device is");
  return static_cast<unsigned>(properties.multiProcessorCount);
}

#else

namespace {
[[noreturn]] void refuse() { throw std::logic_error("raw_cuda: built without CUDA"); }
void no_affine(int*, char, Pair, std::size_t) { refuse(); }
void no_set_condition(unsigned long long, unsigned, int*, int) { refuse(); }
}  // namespace

void (*const raw_affine)(int*, char, Pair, std::size_t) = &no_affine;
void (*const raw_set_condition)(unsigned long long, unsigned, int*, int) = &no_set_condition;

void* raw_kernel_handle(const void*) { refuse(); }
void launch_raw_add(void*, int*, int, std::size_t) { refuse(); }
void let_raw_wait(void*, void*) { refuse(); }
RawStream::RawStream() { refuse(); }
RawStream::~RawStream() = default;
void RawStream::synchronize() { refuse(); }
void RawStream::begin_capture() { refuse(); }
void* RawStream::end_capture() { refuse(); }
void* make_raw_graph(int*, int*, std::size_t) { refuse(); }
void* make_raw_graph_with_host_call(int*) { refuse(); }
std::size_t count_raw_nodes(void*) { refuse(); }
void run_raw_graph(void*, void*) { refuse(); }
void destroy_raw_graph(void*) { refuse(); }
void launch_raw_exec(void*, void*) { refuse(); }

void select_raw_device(int) { throw std::logic_error("select_raw_device: built without CUDA"); }
int current_raw_device() { throw std::logic_error("current_raw_device: built without CUDA"); }
unsigned count_raw_processors() {
  throw std::logic_error("count_raw_processors: built without CUDA");
}

#endif

}  // namespace attacca::test
