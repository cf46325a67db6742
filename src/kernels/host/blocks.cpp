// blocks.cpp: the host's grids, which depend on the number of threads.
#include "kernels/blocks.hpp"

#include <algorithm>
#include <thread>

namespace attacca::kernels {

Grid host_grid(std::uint64_t work, std::uint64_t least) {
  const std::uint64_t most = 4 * std::max(1u, std::thread::hardware_concurrency());
  return Grid::covering(std::clamp<std::uint64_t>(work / least, 1, most), 1);
}

}  // namespace attacca::kernels
