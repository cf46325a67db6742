// cublas.hpp: cuBLASLt's products as a yardstick for ours. The library is loaded where there is
// one; nothing depends on it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace attacca::lab {

/// Products y = W x of bf16 as a graph: one for each matrix of weights, one after the other.
class CublasProducts {
 public:
  struct Shape {
    std::uint32_t outputs;
    std::uint32_t columns;
    std::uint32_t rows;  // of x
  };
  /// Chooses the fastest of the algorithms that cuBLASLt suggests. `x` is [rows, columns], `y`
  /// [rows, outputs], all of them bf16. REQUIRES: is_there().
  CublasProducts(const Shape& shape, const std::vector<const void*>& weights, const void* x,
                 void* y);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  /// Whether libcublasLt can be loaded.
  static bool is_there();
  /// Launches the graph some times and waits for its end.
  void run(unsigned launches);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace attacca::lab
