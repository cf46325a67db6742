// cublas.cpp: loads libcublasLt by name, lets it choose an algorithm and captures its products in a
// graph.
#include "cublas.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace attacca::lab {
namespace {

constexpr int kAlgorithms = 8;
constexpr std::size_t kWorkspaceBytes = 64 << 20;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error("cuBLASLt: status " + std::to_string(static_cast<int>(status)));
}

void* library() {
  static void* const loaded = [] {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if (void* const found = dlopen(name, RTLD_NOW)) return found;
    return static_cast<void*>(nullptr);
  }();
  return loaded;
}
template <class Function>
Function* find(const char* name) {
  void* const found = dlsym(library(), name);
  if (!found) throw std::runtime_error(std::string("libcublasLt has no ") + name);
  return reinterpret_cast<Function*>(found);
}
#define ATTACCA_CUBLAS(name) find<decltype(name)>(#name)

}  // namespace

struct CublasProducts::State {
  cudaStream_t stream = nullptr;
  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  cudaGraphExec_t exec = nullptr;

  void multiply(const void* weights, const void* from, void* to,
                const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1, zero = 0;
    check(ATTACCA_CUBLAS(cublasLtMatmul)(handle, product, &one, weights, w, from, x, &zero, to, y,
                                         to, y, &algorithm, workspace, kWorkspaceBytes, stream));
  }
};

bool CublasProducts::is_there() { return library() != nullptr; }

CublasProducts::CublasProducts(const Shape& shape, const std::vector<const void*>& weights,
                               const void* x, void* y)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  check(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
  check(ATTACCA_CUBLAS(cublasLtCreate)(&s.handle));
  check(cudaMalloc(&s.workspace, kWorkspaceBytes));
  // cuBLAS stores columns one after the other, so to it our rows are columns.
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(ATTACCA_CUBLAS(cublasLtMatmulDescCreate)(&s.product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  check(ATTACCA_CUBLAS(cublasLtMatmulDescSetAttribute)(s.product, CUBLASLT_MATMUL_DESC_TRANSA,
                                                       &transposed, sizeof transposed));
  const auto layout = [](cublasLtMatrixLayout_t& made, std::uint32_t rows, std::uint32_t columns) {
    check(ATTACCA_CUBLAS(cublasLtMatrixLayoutCreate)(&made, CUDA_R_16BF, rows, columns, rows));
  };
  layout(s.w, shape.columns, shape.outputs);
  layout(s.x, shape.columns, shape.rows);
  layout(s.y, shape.outputs, shape.rows);

  cublasLtMatmulPreference_t preference = nullptr;
  check(ATTACCA_CUBLAS(cublasLtMatmulPreferenceCreate)(&preference));
  check(ATTACCA_CUBLAS(cublasLtMatmulPreferenceSetAttribute)(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
      sizeof kWorkspaceBytes));
  cublasLtMatmulHeuristicResult_t found[kAlgorithms];
  int count = 0;
  check(ATTACCA_CUBLAS(cublasLtMatmulAlgoGetHeuristic)(s.handle, s.product, s.w, s.x, s.y, s.y,
                                                       preference, kAlgorithms, found, &count));
  check(ATTACCA_CUBLAS(cublasLtMatmulPreferenceDestroy)(preference));

  const auto pass = [&](int algorithm) {
    for (const void* matrix : weights) s.multiply(matrix, x, y, found[algorithm].algo);
  };
  int best = -1;
  double least = 0;
  for (int i = 0; i < count; ++i) {
    pass(i);
    check(cudaStreamSynchronize(s.stream));
    const auto start = std::chrono::steady_clock::now();
    pass(i);
    pass(i);
    check(cudaStreamSynchronize(s.stream));
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (best < 0 || took < least) best = i, least = took;
  }
  if (best < 0) throw std::runtime_error("cuBLASLt suggests no algorithm for this product");
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal));
  pass(best);
  check(cudaStreamEndCapture(s.stream, &graph));
  check(cudaGraphInstantiate(&s.exec, graph, 0));
  check(cudaGraphDestroy(graph));
}

CublasProducts::~CublasProducts() {
  (void)cudaGraphExecDestroy(state_->exec);
  (void)ATTACCA_CUBLAS(cublasLtMatrixLayoutDestroy)(state_->w);
  (void)ATTACCA_CUBLAS(cublasLtMatrixLayoutDestroy)(state_->x);
  (void)ATTACCA_CUBLAS(cublasLtMatrixLayoutDestroy)(state_->y);
  (void)ATTACCA_CUBLAS(cublasLtMatmulDescDestroy)(state_->product);
  (void)ATTACCA_CUBLAS(cublasLtDestroy)(state_->handle);
  (void)cudaFree(state_->workspace);
  (void)cudaStreamDestroy(state_->stream);
}

void CublasProducts::run(unsigned launches) {
  for (unsigned i = 0; i < launches; ++i) check(cudaGraphLaunch(state_->exec, state_->stream));
  check(cudaStreamSynchronize(state_->stream));
}

}  // namespace attacca::lab
