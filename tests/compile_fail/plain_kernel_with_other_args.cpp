// expect: cannot convert|could not convert|no matching function
// A plain CUDA kernel takes arguments that convert to its parameters and no others.
#include <attacca/graph.hpp>

using namespace attacca;

void scale(float* x, float factor, int count);

void build(Graph& graph, float* x) {
  const auto kernel = cuda_kernel("scale", &scale);
#ifdef CORRECT
  graph.kernel(kernel, Grid{}, x, 2, 10);
#else
  graph.kernel(kernel, Grid{}, 2, x, 10);
#endif
}
