// workers.cpp: chooses the grid of persistent workers, and checks their options.
#include <attacca/error.hpp>
#include <attacca/occupancy.hpp>
#include <attacca/workers.hpp>

#include <fmt/core.h>

#include "graph/marks.hpp"

namespace attacca::detail {

namespace {
constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostBatch = 1024;
}  // namespace

device::SiteRef worker_site(const Device& device, const KernelInfo& kernel, Graph* graph) {
  const std::shared_ptr<graph::Marks> marks = graph::marks_of(device);
  if (!marks) return {};
  if (graph) graph::data_of(*graph).keeps.push_back(marks);
  return marks->add({.name = kernel.name,
                     .graph = graph ? graph->name() : std::string(),
                     .is_range = true,
                     .is_persistent = true});
}

Grid worker_grid(const Device& device, const KernelInfo& kernel, const WorkerOptions& options) {
  if (options.threads == 0 || options.threads > kMostThreads || options.threads % kWarp != 0)
    throw BadArgument(
        fmt::format("workers '{}': {} threads in a block; use a multiple of {} up to {}",
                    kernel.name, options.threads, kWarp, kMostThreads));
  if (options.batch > kMostBatch)
    throw BadArgument(fmt::format("workers '{}': a batch of {}; use 1 to {}, or 0 to let it adapt",
                                  kernel.name, options.batch, kMostBatch));
  Grid grid;
  if (device.is_cuda()) grid.threads.x = options.threads;
  const auto fit = static_cast<unsigned>(occupancy(device, kernel, grid).resident_blocks);
  if (options.blocks > fit)
    throw BadArgument(fmt::format(
        "workers '{}': {} blocks of {} threads are not on {} at once; use at most {}, or 0 for all "
        "that fit",
        kernel.name, options.blocks, grid.threads.x, device.name(), fit));
  grid.blocks.x = options.blocks == 0 ? fit : options.blocks;
  return grid;
}

}  // namespace attacca::detail
