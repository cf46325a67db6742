// nested.cpp: checks and sets the limits of nested launches.
#include <attacca/error.hpp>
#include <attacca/nested.hpp>

#include <string>

#include "graph/executor.hpp"

namespace attacca::nested {

namespace {
constexpr std::size_t kMostPendingLaunches = 1u << 20;
constexpr std::size_t kMostStackBytes = 512 * 1024;
}  // namespace

void set_limits(const Device& device, const Limits& limits) {
  if (limits.pending_launches == 0 || limits.pending_launches > kMostPendingLaunches)
    throw BadArgument("nested::set_limits: " + std::to_string(limits.pending_launches) +
                      " pending launches; use 1 to " + std::to_string(kMostPendingLaunches) +
                      " (the default is " + std::to_string(kDefaultPendingLaunches) + ")");
  if (limits.stack_bytes > kMostStackBytes)
    throw BadArgument("nested::set_limits: a stack of " + std::to_string(limits.stack_bytes) +
                      " bytes per thread; use at most " + std::to_string(kMostStackBytes) +
                      ", or 0 to leave it alone");
  graph::impl_of(device).set_nested_limits(limits.pending_launches, limits.stack_bytes);
}

}  // namespace attacca::nested
