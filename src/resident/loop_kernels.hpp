// loop_kernels.hpp: the two kernels around the step in the loop that lives on the device: `plan`
// takes in orders, plans the next step and prepares the slots of new sequences; `commit` takes the
// sampled tokens, publishes them and says whether to go round again. The policy is schedule/'s; one
// thread runs it, and the whole block copies.
#pragma once

#include <attacca/handles.hpp>
#include <attacca/kernel.hpp>

#include "resident/mail.hpp"

namespace attacca::resident {

/// What the loop keeps from step to step.
struct LoopState {
  schedule::State state;
  std::uint32_t* cached_tokens = nullptr;  // [requests]: of the prompt, when it was placed
  Order order = {};                        // the one that is carried out
  std::uint32_t is_full = 0;               // no room for another step's news
};

/// The slots' memory, which the sampler reads.
struct SlotWrites {
  kernels::SamplingParams* params = nullptr;
  std::int32_t* stop = nullptr;
  kernels::TokenBias* bias = nullptr;
  std::uint32_t* allowed = nullptr;
  std::uint16_t* marks = nullptr;
  std::uint32_t vocabulary = 0;
};

struct PlanArgs {
  LoopState* loop;
  Letters letters;
  SlotWrites slots;
  device::RingRef<Order> orders;
  device::RingRef<News> news;
  device::RingRef<kernels::Sampled> tops;
  Condition graph;  // which step runs; beyond the last: none
};

struct CommitArgs {
  LoopState* loop;
  Letters letters;
  const kernels::Sampled* sampled;
  device::RingRef<Order> orders;
  device::RingRef<News> news;
  device::RingRef<kernels::Sampled> tops;
  Board* board;
  Condition again;
};

const Kernel<PlanArgs>& plan();
const Kernel<CommitArgs>& commit();
Grid grid_of(const PlanArgs& args, bool is_cuda);
Grid grid_of(const CommitArgs& args, bool is_cuda);

/// News that one step may bring beside its rows: one for the step, one for the end of the loop.
inline constexpr std::uint32_t kNewsBesideRows = 2;

}  // namespace attacca::resident
