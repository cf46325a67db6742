// example.hpp: the interface of the examples to the command line tool and the tests, and the few
// helpers that they share. Each example is one .cpp; start with replay.cpp.
#pragma once

#include <attacca/attacca.hpp>
#include <attacca/device/atomic.hpp>
#include <cstdio>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace attacca::examples {

/// `run` does the whole job, reports to `out`, compares the result with one computed in plain C++
/// and throws if they differ. `graph` builds the graph that `run` launches, for printing. Neither
/// leaves a file behind; `write` writes the file that an example has to show, if any.
struct Example {
  const char* name;
  const char* summary;
  Graph (*graph)(const Device& device);
  void (*run)(const Device& device, std::ostream& out);
  void (*write)(const Device& device, const std::string& path) = nullptr;
};

extern const Example replay, batch_sizes, heat, compressor, nested_mandelbrot, resident_scheduler,
    work_stealing, pipeline, data_parallel;
std::vector<Example> all_examples();

/// A device for one rank. Ranks exchange host memory, and a rank that waits must not keep workers
/// that another one needs.
inline Device rank_device(const Device& like, unsigned workers) {
  return like.kind() == DeviceKind::host_serial ? like : Device::host(workers);
}

/// A number as printf's `format` writes it. (nvcc cannot check the formats of fmt.)
inline std::string written(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// Throws if an example's result is wrong.
inline void expect(bool is_right, const std::string& what) {
  if (!is_right) throw std::runtime_error("wrong result: " + what);
}

/// Atomic operations for kernels, on host and device. They are relaxed: graph edges order what
/// follows.
using SharedCount = device::AtomicRef<unsigned, device::Scope::gpu>;
ATTACCA_HD inline unsigned fetch_add(unsigned& value, unsigned amount) {
  return SharedCount(value).fetch_add(amount, device::relaxed);
}
ATTACCA_HD inline void raise_to(unsigned& value, unsigned least) {
  if (SharedCount(value).load(device::relaxed) < least)
    SharedCount(value).fetch_max(least, device::relaxed);
}

}  // namespace attacca::examples
