// host.hpp: the host's side of the scheduling policy: what limits make sense, how much memory they
// take and where everything lies in it, and the words for refusals and for reports.
#pragma once

#include <cstddef>
#include <string>

#include "schedule/state.hpp"

namespace attacca::schedule {

inline constexpr std::uint32_t kMostPages = 1u << 24;

/// Throws BadArgument with the value and the remedy.
void check(const Limits& limits);

/// Bytes of the two memories: what kernels read, and what only the policy reads.
std::size_t plan_bytes(const Limits& limits);
std::size_t state_bytes(const Limits& limits);
/// Of the plan's bytes the leading ones that each step writes anew: all but the block tables.
std::size_t step_bytes(const Limits& limits);

/// The unit that both are aligned to, for who allocates them.
struct alignas(64) Line {
  unsigned char bytes[64];
};

/// Lay a plan or a state out in memory of the host or a device, and touch none of it: a plan bound
/// to a device's memory is where a copy of the host's plan belongs. A new state wants a `reset`.
/// REQUIRES: the limits passed `check` (but for the page size), memory is aligned to a Line.
Plan bind_plan(const Limits& limits, void* memory);
State bind_state(const Limits& limits, const Plan& plan, void* memory);

/// What `judge` has against a request, with its numbers and the remedy; empty where nothing.
std::string why_refused(const Limits& limits, const Request& request);

}  // namespace attacca::schedule
