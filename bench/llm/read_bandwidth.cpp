// read_bandwidth.cpp: times passes of the kernel of read_kernels.hpp over a large buffer.
#include "llm/read_bandwidth.hpp"

#include <algorithm>
#include <attacca/memory.hpp>

#include "instruments/bandwidth.hpp"
#include "llm/device_clock.hpp"
#include "llm/read_kernels.hpp"

namespace bench {

double read_bandwidth(const attacca::Device& device) {
  if (!device.is_cuda()) return attacca::instruments::read_bandwidth();
  constexpr std::size_t kMost = std::size_t{8} << 30;
  constexpr int kPasses = 9;
  const attacca::Buffer<Quad> memory(device,
                                     std::min(kMost, device.bytes_free() / 2) / sizeof(Quad));
  const attacca::Buffer<std::uint32_t> seen(device, 1);
  const attacca::Grid grid = read_grid(device.processors());
  const DeviceClock clock = device_clock(device);
  clock([&](attacca::StreamRef stream) { stream.fill(memory.data(), 1, memory.bytes()); }, 1);
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double took = clock(
        [&](attacca::StreamRef stream) {
          stream.kernel(read_memory(), grid, {memory.data(), memory.size(), seen.data()});
        },
        1);
    best = std::max(best, static_cast<double>(memory.bytes()) / took * 1e6);
  }
  return best;
}

}  // namespace bench
