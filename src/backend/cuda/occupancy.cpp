// occupancy.cpp: counts the blocks of a kernel that fit on a GPU, and names the limit.
#include <attacca/occupancy.hpp>

#include <fmt/core.h>

#include "backend/cuda/check.hpp"
#include "backend/cuda/device.hpp"

namespace attacca::cuda {

namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kSharedGranule = 128;

unsigned rounded_up(unsigned value, unsigned granule) {
  return (value + granule - 1) / granule * granule;
}

unsigned size_of_device(cudaDeviceAttr attribute, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, attribute, index), "asking for a device's sizes");
  return static_cast<unsigned>(value);
}

}  // namespace

unsigned CudaDevice::processors() const {
  return size_of_device(cudaDevAttrMultiProcessorCount, index_);
}

Residency CudaDevice::residency(const KernelInfo& kernel, const Grid& grid) {
  if (!kernel.cuda)
    throw GraphError(Rule::no_body_for_backend, kernel.name,
                     fmt::format("kernel '{}' has no CUDA body; compile the file that calls "
                                 "make_kernel with nvcc (attacca_kernels in CMake)",
                                 kernel.name));
  const CurrentDevice current(index_);
  const auto ask = [&](cudaDeviceAttr attribute) { return size_of_device(attribute, index_); };
  const auto doing = [&] { return fmt::format("asking how many blocks of '{}' fit", kernel.name); };
  cudaFuncAttributes function{};
  check(cudaFuncGetAttributes(&function, kernel.cuda), doing);
  const auto threads = static_cast<unsigned>(grid.threads.count());
  const auto shared_bytes = static_cast<unsigned>(function.sharedSizeBytes) + grid.shared_bytes;
  if (threads > static_cast<unsigned>(function.maxThreadsPerBlock))
    throw BadArgument(
        fmt::format("kernel '{}': a block of {} threads needs more registers than there are; use "
                    "at most {} threads",
                    kernel.name, threads, function.maxThreadsPerBlock));
  if (const unsigned most = ask(cudaDevAttrMaxSharedMemoryPerBlockOptin); shared_bytes > most)
    throw BadArgument(
        fmt::format("kernel '{}': {} bytes of shared memory per block; {} has {}: use less",
                    kernel.name, shared_bytes, name(), most));
  allow_shared_bytes(kernel, grid);

  int fitting = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, kernel.cuda,
                                                      static_cast<int>(threads), grid.shared_bytes),
        doing);
  Residency residency{processors(), static_cast<unsigned>(fitting),
                      ask(cudaDevAttrMaxThreadsPerMultiProcessor)};
  const unsigned of_shared =
      shared_bytes == 0
          ? ~0u
          : ask(cudaDevAttrMaxSharedMemoryPerMultiprocessor) /
                rounded_up(shared_bytes + ask(cudaDevAttrReservedSharedMemoryPerBlock),
                           kSharedGranule);
  // The allocation of registers is not documented, so they are named when nothing else limits.
  if (residency.blocks_per_processor >=
      residency.threads_per_processor / rounded_up(threads, kWarp))
    residency.limit = OccupancyLimit::threads;
  else if (residency.blocks_per_processor >= ask(cudaDevAttrMaxBlocksPerMultiprocessor))
    residency.limit = OccupancyLimit::blocks;
  else if (residency.blocks_per_processor >= of_shared)
    residency.limit = OccupancyLimit::shared_memory;
  else
    residency.limit = OccupancyLimit::registers;
  return residency;
}

std::uint64_t CudaDevice::blocks_at_once(const KernelInfo& kernel, const Grid& grid) {
  const std::lock_guard lock(blocks_at_once_mutex_);
  const auto key = std::tuple(kernel.cuda, grid.threads.count(), grid.shared_bytes);
  if (const auto known = blocks_at_once_.find(key); known != blocks_at_once_.end())
    return known->second;
  const CurrentDevice current(index_);
  const Residency each = residency(kernel, grid);
  std::uint64_t blocks = std::uint64_t{each.processors} * each.blocks_per_processor;
  const auto doing = [&] { return fmt::format("asking how many blocks of '{}' fit", kernel.name); };
  cudaFuncAttributes function{};
  check(cudaFuncGetAttributes(&function, kernel.cuda), doing);
  if (function.requiredClusterWidth > 0) {  // a cluster shares a GPC, which may have an odd SM left
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(grid.blocks.x, grid.blocks.y, grid.blocks.z);
    config.blockDim = dim3(grid.threads.x, grid.threads.y, grid.threads.z);
    config.dynamicSmemBytes = grid.shared_bytes;
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, kernel.cuda, &config), doing);
    blocks = static_cast<std::uint64_t>(clusters) *
             static_cast<unsigned>(function.requiredClusterWidth * function.requiredClusterHeight *
                                   function.requiredClusterDepth);
  }
  blocks_at_once_.emplace(key, blocks);
  return blocks;
}

}  // namespace attacca::cuda
