// raw_cuda.hpp: stands in for a CUDA program that attacca is a guest in: plain CUDA kernels,
// streams and graphs, without attacca. In a build without CUDA everything but the function pointers
// throws.
#pragma once

#include <cstddef>
#include <cstdint>

namespace attacca::test {

/// Enqueues x[i] += value on a cudaStream_t.
void launch_raw_add(void* cuda_stream, int* x, int value, std::size_t count);

/// Lets a cudaStream_t wait for what another has been given so far.
void let_raw_wait(void* waiting_stream, void* stream);

/// Select and read the calling thread's device by plain CUDA calls.
void select_raw_device(int index);
int current_raw_device();
/// SMs of the calling thread's device. Throws without CUDA.
unsigned count_raw_processors();
// __global__ functions, as the pointers that a plain C++ file can hold.

struct Pair {
  int first;
  double second;
};
/// x[i] = x[i] * factor + pair.first + pair.second, for i below count.
extern void (*const raw_affine)(int* x, char factor, Pair pair, std::size_t count);
/// Sets a cudaGraphConditionalHandle, and *seen = mark.
extern void (*const raw_set_condition)(unsigned long long handle, unsigned value, int* seen,
                                       int mark);
/// The cudaKernel_t of a __global__ function.
void* raw_kernel_handle(const void* function);

/// Owns a cudaStream_t made by cudaStreamCreate, which waits for the legacy stream.
class RawStream {
 public:
  RawStream();
  ~RawStream();
  RawStream(const RawStream&) = delete;
  void* get() const { return stream_; }
  void synchronize();
  void begin_capture();
  /// A cudaGraph_t, for destroy_raw_graph.
  void* end_capture();

 private:
  void* stream_ = nullptr;
};

/// A graph with these nodes, in this order: memset y to zero, x[i] = x[i] * 2 + 3 by raw_affine,
/// y[i] = x[i] by a copy, and a child graph that adds 1 to y by raw_add.
void* make_raw_graph(int* x, int* y, std::size_t count);
/// A graph of a fill and a host call after it.
void* make_raw_graph_with_host_call(int* x);
std::size_t count_raw_nodes(void* cuda_graph);
void run_raw_graph(void* cuda_graph, void* cuda_stream);
void destroy_raw_graph(void* cuda_graph);

void launch_raw_exec(void* cuda_graph_exec, void* cuda_stream);

}  // namespace attacca::test
