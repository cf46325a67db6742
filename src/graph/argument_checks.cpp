// argument_checks.cpp: the words for arguments that a single call can get wrong, and the limits of
// a grid.
#include "graph/argument_checks.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <limits>

namespace attacca {

void detail::refuse_covering(std::uint64_t items, unsigned threads) {
  throw BadArgument(
      fmt::format("a grid of blocks of {} threads that covers {} items would have more than {} "
                  "blocks, or no threads; use larger blocks, or let each thread do several items",
                  threads, items, Grid::kMaxBlocks));
}

namespace graph {

void check_grid(const KernelInfo& kernel, const Grid& grid) {
  const auto spell = [](const Dim3& d) { return fmt::format("{}x{}x{}", d.x, d.y, d.z); };
  if (grid.blocks.count() == 0 || grid.threads.count() == 0)
    throw BadArgument(
        fmt::format("kernel '{}': a grid of {} blocks of {} threads has nothing to "
                    "run; every extent is at least 1",
                    kernel.name, spell(grid.blocks), spell(grid.threads)));
  if (grid.threads.count() > attacca::detail::kMostBlockThreads || grid.threads.z > 64)
    throw BadArgument(fmt::format("kernel '{}': a block of {} threads; at most {}, and 64 in z",
                                  kernel.name, spell(grid.threads),
                                  attacca::detail::kMostBlockThreads));
  if (grid.blocks.y > 65535 || grid.blocks.z > 65535 || grid.blocks.x > Grid::kMaxBlocks)
    throw BadArgument(fmt::format("kernel '{}': {} blocks; at most {} in x, 65535 in y and z",
                                  kernel.name, spell(grid.blocks), Grid::kMaxBlocks));
}

namespace {

/// Half of all addresses: no object is larger, and an address and a size make no sum out of range.
constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max() / 2;

void check_size(const char* what, std::size_t bytes) {
  if (bytes > kMostBytes)
    throw BadArgument(fmt::format(
        "{} of {} bytes: more than any memory holds; give it the size of the memory", what, bytes));
}

}  // namespace

void check_copy(const void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || !to || !from)
    throw BadArgument(
        fmt::format("copy of {} bytes from {} to {}: give it two addresses and at "
                    "least one byte, or leave it out",
                    bytes, from, to));
  check_size("copy", bytes);
}

void check_fill(const void* to, std::size_t bytes) {
  if (bytes == 0 || !to)
    throw BadArgument(
        fmt::format("fill of {} bytes at {}: give it an address and at least one "
                    "byte, or leave it out",
                    bytes, to));
  check_size("fill", bytes);
}

void check_copy_2d(Pitched to, ConstPitched from, std::size_t width_bytes, std::size_t rows) {
  if (width_bytes == 0 || rows == 0 || !to.data || !from.data)
    throw BadArgument(
        fmt::format("copy of {} rows of {} bytes from {} to {}: give it two addresses and at least "
                    "one byte, or leave it out",
                    rows, width_bytes, from.data, to.data));
  const std::size_t pitch = std::max(to.pitch, from.pitch);
  if (std::min(to.pitch, from.pitch) < width_bytes)
    throw BadArgument(
        fmt::format("copy of rows of {} bytes with pitches of {} to {}: a pitch is at least the "
                    "width of a row",
                    width_bytes, from.pitch, to.pitch));
  if (rows > kMostBytes / pitch)
    throw BadArgument(
        fmt::format("copy of {} rows with a pitch of {} bytes: more than there are addresses; copy "
                    "fewer rows",
                    rows, pitch));
}

std::string name_beside(const Device& device, const Device& beside) {
  std::string name = device.name();
  return name == beside.name() ? fmt::format("another {} device", name) : name;
}

}  // namespace graph
}  // namespace attacca
