// loop_kernels.hpp: the two kernels that stand beside the step in the loop on the device. A pass
// begins with `turn`: it saves what the step of the pass before has sampled and puts the planned
// step where the kernels read. Then the step runs, a SWITCH over the graphs of all sizes. Beside it
// `plan` commits the step before, publishes its tokens, takes in orders, and plans the step of the
// next pass. So only `turn` stands between two steps. A launch of the loop begins with a `plan`, so
// that its first pass has a step. The policy is schedule/'s.
#pragma once

#include <attacca/device/records.hpp>
#include <attacca/handles.hpp>
#include <attacca/kernel.hpp>

#include "resident/mail.hpp"

namespace attacca::resident {

/// When a `plan` began, when it had committed the step before, and when it ended, by the device's
/// clock.
struct PlanTimes {
  std::uint64_t began = 0;
  std::uint64_t committed = 0;
  std::uint64_t ended = 0;
};

/// What the loop keeps from step to step.
struct LoopState {
  schedule::State state;                      // its plan is that of the next step
  schedule::Plan running;                     // what the kernels of the step read
  kernels::Sampled* sampled = nullptr;        // [logit_rows]: of the step before
  std::uint32_t* cached_tokens = nullptr;     // [requests]: of the prompt, when it was placed
  std::uint32_t* masks = nullptr;             // [requests]: the row of the next token's
  kernels::SamplingParams* params = nullptr;  // [requests]: as in the letters
  std::int32_t* stop = nullptr;               // [requests, kMaxStopTokens]: as in the letters
  schedule::Counts counts = {};               // of the step before
  device::RingPlace orders, news, tops;
  std::uint64_t orders_told = 0;  // of those taken: how many the host knows of
  Order order = {};               // the one that is carried out
  std::uint32_t has_step = 0;     // `running` has one
  std::uint32_t has_sampled = 0;  // the step before is not committed
  std::uint32_t is_full = 0;      // no room for another step's news
  std::uint32_t is_paused = 0;    // no more steps are planned
  std::uint32_t is_over = 0;      // this pass is the loop's last
  std::uint64_t turn_began = 0;   // the newest, by the device's clock
  std::uint64_t turn_ended = 0;
  PlanTimes first_plan;  // the launch's, until the next plan has recorded it; then it began at 0
};

/// The slots' memory, which the sampler reads.
struct SlotWrites {
  kernels::SamplingParams* params = nullptr;
  std::int32_t* stop = nullptr;
  kernels::TokenBias* bias = nullptr;
  std::uint32_t* masks = nullptr;
  kernels::MaskEdges edges = {};
  std::uint16_t* marks = nullptr;
  std::uint32_t vocabulary = 0;
};

/// Where a Tracer finds the parts of a pass; without one they record nothing. `commit` is the part
/// of `plan` that settles the step before.
struct LoopSites {
  device::SiteRef turn, commit, plan;
};

struct PlanArgs {
  LoopState* loop;
  Letters letters;
  SlotWrites slots;
  const Launch* launch;
  device::RingRef<Order> orders;
  device::RingRef<News> news;
  device::RingRef<kernels::Sampled> tops;
  Board* board;
  device::RecordsRef records;  // of begins and ends, if any
  LoopSites sites;
  std::uint32_t is_first = 0;            // it comes before the first pass
  const LoopState* rehearses = nullptr;  // for this loop, and only once that is over
};

struct TurnArgs {
  LoopState* loop;
  schedule::Plan planned;  // the loop's pointers, here too: a read less before the next step
  schedule::Plan running;
  const kernels::Sampled* sampled;
  kernels::Sampled* saved;
  Letters letters;
  SlotWrites slots;
  device::RingRef<Order> orders;
  device::RingRef<News> news;
  Board* board;
  Condition graph;  // which step runs; beyond the last: none
  Condition again;
};

const Kernel<PlanArgs>& plan();
const Kernel<TurnArgs>& turn();
Grid grid_of(const PlanArgs& args, bool is_cuda);
Grid grid_of(const TurnArgs& args, bool is_cuda);

/// The room that `plan` wants in the ring of news: for the rows of the step that runs and of the
/// one that it plans, a word on each step, the answer to an order, and the end of the loop.
ATTACCA_HD constexpr std::uint32_t news_wanted(const schedule::Limits& limits) {
  return 2 * limits.logit_rows + 4;
}

}  // namespace attacca::resident
