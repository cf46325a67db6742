// example.hpp: what the examples offer to the command line tool and the tests, and the few helpers
// they share. Each example is one .cpp; start with replay.cpp.
#pragma once

#include <atomic>
#include <attacca/attacca.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace attacca::examples {

/// `run` does the whole job, tells `out` what happened, compares the result with one computed in
/// plain C++ and throws where they differ. `graph` builds the graph that `run` launches, to print.
struct Example {
  const char* name;
  const char* summary;
  Graph (*graph)(const Device& device);
  void (*run)(const Device& device, std::ostream& out);
};

extern const Example replay, batch_sizes, heat, compressor, nested_mandelbrot, resident_scheduler;
std::vector<Example> all_examples();

/// Throws where an example's result is not what it must be.
inline void expect(bool is_right, const std::string& what) {
  if (!is_right) throw std::runtime_error("wrong result: " + what);
}

/// Atomic operations for kernels, on host and device. Relaxed: what follows is ordered by an edge.
ATTACCA_HD inline unsigned fetch_add(unsigned& value, unsigned amount) {
#if defined(__CUDA_ARCH__)
  return atomicAdd(&value, amount);
#else
  return std::atomic_ref<unsigned>(value).fetch_add(amount, std::memory_order_relaxed);
#endif
}
ATTACCA_HD inline void raise_to(unsigned& value, unsigned least) {
#if defined(__CUDA_ARCH__)
  if (*static_cast<volatile unsigned*>(&value) < least) atomicMax(&value, least);
#else
  const std::atomic_ref<unsigned> shared(value);
  unsigned seen = shared.load(std::memory_order_relaxed);
  while (seen < least && !shared.compare_exchange_weak(seen, least, std::memory_order_relaxed)) {
  }
#endif
}

}  // namespace attacca::examples
