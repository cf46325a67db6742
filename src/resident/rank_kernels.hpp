// rank_kernels.hpp: the kernels that stand in the loops of a model split over ranks. Rank 0 has the
// loop of loop_kernels.hpp, and behind its `turn` comes `send_plan`: it puts the step's plan into
// the memory of the other ranks and sets a signal there. Their loops begin each pass with
// `take_plan`, which waits for the signal and puts the plan where the kernels of the step read.
#pragma once

#include <attacca/handles.hpp>
#include <attacca/kernel.hpp>

#include "kernels/rank_exchange.hpp"
#include "resident/loop_kernels.hpp"

namespace attacca::resident {

/// A rank's symmetric memory for one plan. It is read before the exchanges of the step, so rank 0
/// can write the next plan after them. Behind the last plan of a launch rank 0 sends one without
/// tokens, and launches again when the others have left their loops.
struct PlanInbox {
  std::uint32_t* signal = nullptr;  // the number of the newest plan
  schedule::Plan plan;
};

struct SendPlanArgs {
  LoopState* loop;
  schedule::Plan planned;
  PlanInbox inboxes[kernels::RankRoom::kMostRanks];  // by rank; rank 0's is not used
  std::uint32_t* sent;                               // the number of the newest plan
  kernels::RankLink link;
  Condition graph;
  Condition again;
};

struct TakePlanArgs {
  PlanInbox inbox;
  schedule::Plan running;
  std::uint32_t table_stride;
  std::uint32_t* taken;  // the number of the newest plan
  kernels::RankLink link;
  Condition graph;
  Condition again;
};

const Kernel<SendPlanArgs>& send_plan();
const Kernel<TakePlanArgs>& take_plan();
Grid grid_of(const SendPlanArgs& args, bool is_cuda);
Grid grid_of(const TakePlanArgs& args, bool is_cuda);

}  // namespace attacca::resident
