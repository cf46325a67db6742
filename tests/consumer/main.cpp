// A small program that uses an installed attacca. It runs a graph of its own kernels, one of which
// spawns kernels, on the host and on the GPU if there is one.
#include <attacca/attacca.hpp>
#include <cstdio>
#include <exception>
#include <vector>

#include "kernels.hpp"

namespace {

constexpr std::uint32_t kCount = 1000;
constexpr std::uint32_t kSpawned = 8;

/// Whether all values were doubled and then the first ones raised by one.
bool run_on(const attacca::Device& device) {
  std::vector<std::uint32_t> values(kCount);
  for (std::uint32_t at = 0; at < kCount; ++at) values[at] = at;
  const attacca::Buffer<std::uint32_t> buffer(device, values);
  attacca::Graph graph(device, "consumer");
  const auto doubled = graph.kernel(consumer::double_each, attacca::Grid::covering(kCount, 128),
                                    {buffer.data(), kCount});
  graph.kernel(consumer::spawn_additions, attacca::Grid{}, {buffer.data(), kSpawned})
      .after(doubled);
  const attacca::Stream stream(device);
  attacca::Exec exec = graph.instantiate();
  exec.launch(stream);
  stream.synchronize();

  const std::vector<std::uint32_t> result = buffer.read();
  for (std::uint32_t at = 0; at < kCount; ++at)
    if (result[at] != 2 * at + (at < kSpawned)) {
      std::printf("%s: value %u is %u\n", device.name().c_str(), at, result[at]);
      return false;
    }
  std::printf("%s: %u values doubled, %u kernels spawned, all right\n", device.name().c_str(),
              kCount, kSpawned);
  return true;
}

}  // namespace

int main() {
  try {
    std::printf("attacca %s\n", attacca::version());
    const attacca::Device best = attacca::Device::best();
    bool is_right = run_on(attacca::Device::host());
    if (best.is_cuda())
      is_right = run_on(best) && is_right;
    else
      std::printf("no GPU that attacca can use here: ran on the host only\n");
    return is_right ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
