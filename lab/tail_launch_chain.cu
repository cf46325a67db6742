// tail_launch_chain.cu: is a stream done while a loop that was launched on it still runs? In each
// round a WHILE node counts sixty passes, then graphs that launch each other from the device do.
// All are destroyed behind the stream, unless KEEP is 1: then the graphs for device launch live on.
// The library's loops, run like this on an H200 with driver 580, ended too late from the 142nd
// round on, and never where execs for device launch were kept (1,500 rounds). So the library keeps
// them.
//
//   nvcc -O1 -arch=sm_90 -rdc=true lab/tail_launch_chain.cu -o chain -lcudadevrt
//   ./chain [KEEP = 0] [ROUNDS = 300]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

void check(cudaError_t result, int line) {
  if (result == cudaSuccess) return;
  std::printf("line %d: %s\n", line, cudaGetErrorString(result));
  std::exit(1);
}
#define CHECK(call) check(call, __LINE__)

constexpr unsigned kPasses = 60;
constexpr unsigned kArms = 4;

__device__ unsigned passes;  // of the loop that runs

__global__ void work() {}
__global__ void go_on(cudaGraphConditionalHandle again) {
  cudaGraphSetConditional(again, ++passes < kPasses);
}
__global__ void launch_next(const cudaGraphExec_t* arms) {
  const unsigned pass = ++passes;
  if (pass < kPasses) cudaGraphLaunch(arms[pass % kArms], cudaStreamGraphTailLaunch);
}

template <class... Args>
cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNode_t behind, void (*kernel)(Args...),
                    Args... args) {
  cudaKernelNodeParams node{};
  void* arguments[] = {&args..., nullptr};
  node.func = reinterpret_cast<void*>(kernel);
  node.gridDim = node.blockDim = dim3(1);
  node.kernelParams = arguments;
  cudaGraphNode_t added = nullptr;
  CHECK(cudaGraphAddKernelNode(&added, graph, behind ? &behind : nullptr, behind ? 1 : 0, &node));
  return added;
}

cudaGraphExec_t make_while() {
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle again{};
  CHECK(cudaGraphConditionalHandleCreate(&again, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams params{};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = again;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
  const cudaGraph_t body = params.conditional.phGraph_out[0];
  add(body, add(body, add(body, nullptr, work), work), go_on, again);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return exec;
}

cudaGraphExec_t make_arm(const cudaGraphExec_t* arms) {
  cudaGraph_t graph = nullptr;
  CHECK(cudaGraphCreate(&graph, 0));
  add(graph, add(graph, add(graph, nullptr, work), work), launch_next, arms);
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphUpload(exec, cudaStreamPerThread));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  return exec;
}

/// Launches a loop, and tells whether its stream was done before it was.
bool ends_late(cudaGraphExec_t exec, cudaStream_t stream) {
  const unsigned none = 0;
  unsigned seen = 0;
  CHECK(cudaMemcpyToSymbol(passes, &none, sizeof none));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpyFromSymbol(&seen, passes, sizeof seen));
  if (seen < kPasses) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return seen < kPasses;
}

}  // namespace

int main(int count, char** arguments) {
  const bool keeps = count > 1 && std::atoi(arguments[1]) != 0;
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 300;
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int late_while = 0, late_chain = 0, first = -1;
  for (int round = 0; round < rounds; ++round) {
    const cudaGraphExec_t by_while = make_while();
    const bool is_while_late = ends_late(by_while, stream);
    CHECK(cudaGraphExecDestroy(by_while));
    cudaGraphExec_t* arms = nullptr;
    CHECK(cudaMalloc(&arms, kArms * sizeof *arms));
    std::vector<cudaGraphExec_t> made;
    for (unsigned arm = 0; arm <= kArms; ++arm) made.push_back(make_arm(arms));
    CHECK(cudaMemcpy(arms, made.data(), kArms * sizeof *arms, cudaMemcpyHostToDevice));
    const bool is_chain_late = ends_late(made.back(), stream);
    for (; !keeps && !made.empty(); made.pop_back()) CHECK(cudaGraphExecDestroy(made.back()));
    CHECK(cudaFree(arms));
    late_while += is_while_late;
    late_chain += is_chain_late;
    if (first < 0 && (is_while_late || is_chain_late)) first = round;
  }
  std::printf("%d rounds: %d WHILE nodes and %d chains ended after their stream was done", rounds,
              late_while, late_chain);
  std::printf(first < 0 ? "\n" : ", the first in round %d\n", first);
  return late_while + late_chain > 0;
}
