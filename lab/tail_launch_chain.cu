// tail_launch_chain.cu: do graphs that launch each other from the device end before their stream is
// done? A longer form of this program, since lost, saw loops that were still running when
// cudaStreamSynchronize returned: after about a thousand graphs for device launch, with five or
// seven graphs a round in 6 to 17 of 600 rounds, with four, six, ten and 22 in none. This form saw
// none in 800 launches each with four, five and seven graphs a round (H200, driver 580). The
// library's tests of loops see it when they are repeated in one process, with WHILE nodes too; why
// is not known. src/loop/chain_end.hpp has what the library does about it.
//
//   nvcc -O1 -arch=sm_90 -rdc=true lab/tail_launch_chain.cu -o chain -lcudadevrt
//   ./chain [ARMS = 3] [ROUNDS = 400]
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

__device__ unsigned passes;  // of the loop that runs

/// Counts a pass, and launches the graph that the list names next; a number past the last ends it.
__global__ void next(const unsigned* list, const cudaGraphExec_t* graphs, unsigned count) {
  const unsigned arm = list[passes++];
  if (arm < count) cudaGraphLaunch(graphs[arm], cudaStreamGraphTailLaunch);
}
__global__ void work() {}

struct Loop {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
};
Loop make_graph(const unsigned* list, const cudaGraphExec_t* graphs, unsigned count) {
  Loop made{};
  CHECK(cudaGraphCreate(&made.graph, 0));
  cudaGraphNode_t last = nullptr;
  for (unsigned i = 0; i < 4; ++i) {  // some nodes before the one that launches
    cudaKernelNodeParams node{};
    void* arguments[] = {&list, &graphs, &count};
    node.func = reinterpret_cast<void*>(i < 3 ? (void (*)())work : (void (*)())next);
    node.gridDim = node.blockDim = dim3(1);
    if (i == 3) node.kernelParams = arguments;
    cudaGraphNode_t added = nullptr;
    CHECK(cudaGraphAddKernelNode(&added, made.graph, last ? &last : nullptr, last ? 1 : 0, &node));
    last = added;
  }
  CHECK(cudaGraphInstantiate(&made.exec, made.graph, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphUpload(made.exec, cudaStreamPerThread));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  return made;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned arms = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 3;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 400;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  int early = 0, first_early = -1;
  for (int round = 0; round < rounds; ++round) {
    std::vector<unsigned> list(2 + static_cast<unsigned>(round) % 9);
    for (std::size_t i = 0; i < list.size(); ++i)
      list[i] = static_cast<unsigned>(round + i * i) % (arms + 1);
    list.back() = arms + 1;
    unsigned* list_there = nullptr;
    cudaGraphExec_t* graphs = nullptr;
    CHECK(cudaMalloc(&list_there, list.size() * sizeof(unsigned)));
    CHECK(cudaMalloc(&graphs, (arms + 1) * sizeof(cudaGraphExec_t)));
    CHECK(cudaMemcpy(list_there, list.data(), list.size() * sizeof(unsigned), cudaMemcpyDefault));
    std::vector<Loop> made;
    std::vector<cudaGraphExec_t> handles;
    for (unsigned arm = 0; arm <= arms; ++arm) {
      made.push_back(make_graph(list_there, graphs, arms + 1));
      handles.push_back(made.back().exec);
    }
    CHECK(cudaMemcpy(graphs, handles.data(), handles.size() * sizeof(handles[0]),
                     cudaMemcpyDefault));
    made.push_back(make_graph(list_there, graphs, arms + 1));  // the host launches this one
    for (int launch = 0; launch < 2; ++launch) {
      const unsigned none = 0;
      unsigned seen = 0;
      CHECK(cudaMemcpyToSymbol(passes, &none, sizeof(none)));
      CHECK(cudaDeviceSynchronize());
      CHECK(cudaGraphLaunch(made.back().exec, stream));
      CHECK(cudaStreamSynchronize(stream));
      CHECK(cudaMemcpyFromSymbolAsync(&seen, passes, sizeof(seen), 0, cudaMemcpyDeviceToHost,
                                      cudaStreamPerThread));
      CHECK(cudaStreamSynchronize(cudaStreamPerThread));
      if (seen == list.size()) continue;
      ++early;
      if (first_early < 0) first_early = round;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the loop has ended
    }
    for (const Loop& each : made) {
      CHECK(cudaGraphExecDestroy(each.exec));
      CHECK(cudaGraphDestroy(each.graph));
    }
    CHECK(cudaFree(list_there));
    CHECK(cudaFree(graphs));
  }
  std::printf("%u graphs a round: %d of %d launches were done too early, the first in round %d\n",
              arms + 2, early, 2 * rounds, first_early);
}
