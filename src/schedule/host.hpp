// host.hpp: the parts of the scheduling policy that only the host needs: it checks limits, computes
// how much memory they take, lays plan and state out in it, and explains refusals. The policy that
// kernels can run too is in step.hpp.
#pragma once

#include <cstddef>
#include <string>

#include "schedule/state.hpp"

namespace attacca::schedule {

inline constexpr std::uint32_t kMostPages = 1u << 24;

/// Throws BadArgument, with the value and the remedy, for limits that make no sense.
void check(const Limits& limits);

/// Bytes of a plan, and of the state that only the policy reads.
std::size_t plan_bytes(const Limits& limits);
std::size_t state_bytes(const Limits& limits);
/// Leading bytes of a plan that every step rewrites: all but the block tables.
std::size_t step_bytes(const Limits& limits);

/// The alignment of plans and states, as a type to allocate them with.
struct alignas(64) Line {
  unsigned char bytes[64];
};

/// Lay a plan or a state out in memory of the host or a device without touching it. A plan bound to
/// a device's memory tells where a copy of the host's plan goes. A new state needs a `reset`.
/// REQUIRES: the limits passed `check` (any page size will do), memory is aligned to a Line.
Plan bind_plan(const Limits& limits, void* memory);
State bind_state(const Limits& limits, const Plan& plan, void* memory);

/// The same state for a copy of its memory elsewhere: all numbers as they are, all pointers into
/// the new memory and the new plan.
State rebind(const State& state, const Plan& plan, void* memory);

/// Why `judge` refuses a request, with its numbers and the remedy; empty if it does not.
std::string why_refused(const Limits& limits, const Request& request);

}  // namespace attacca::schedule
