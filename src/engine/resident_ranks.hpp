// resident_ranks.hpp: the resident scheduler of a model that is split over ranks. Rank 0 has the
// loop of resident_loop.cpp, which sends its plans to the loops of the other ranks: see
// resident/rank_kernels.hpp. The hosts of the other ranks only launch theirs when rank 0's begins.
#pragma once

#include <attacca/memory.hpp>
#include <attacca/ranks.hpp>
#include <attacca/switch_loop.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/step_runner.hpp"
#include "resident/rank_kernels.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

/// The symmetric memory through which plans go, as one rank sees it.
class PlanPost {
 public:
  /// A collective call, which throws RanksBroken. REQUIRES: the runner outlives it; its ranks are
  /// linked.
  PlanPost(const StepRunner& runner, const Device& device, const schedule::Limits& limits);

  /// What rank 0 gives `send_plan`. The loop adds its conditions.
  resident::SendPlanArgs sending(resident::LoopState* loop, const schedule::Plan& planned) const;
  /// What the other ranks give `take_plan`. The loop adds its conditions.
  resident::TakePlanArgs taking() const;
  /// This rank's inbox.
  std::size_t bytes() const { return memory_.span().size_bytes() + number_.bytes(); }
  /// Whether the hosts of the ranks know that one has failed.
  bool is_broken() const noexcept { return runner_.line()->is_broken(); }
  /// Ends the waits of this rank's kernels.
  void stop() const { runner_.parallel()->linked()->stop(); }

 private:
  resident::PlanInbox inbox_of(int rank) const;

  const StepRunner& runner_;
  schedule::Limits limits_;
  SymmetricBuffer<schedule::Line> memory_;  // a line with the signal, then the plan
  Buffer<std::uint32_t> number_;            // of the newest plan
};

/// The graphs that all ranks' loops choose from, one for each step size, with their names.
struct StepArms {
  std::vector<Graph::Fill> fills;
  std::vector<std::string> names;
};
/// REQUIRES: the runner outlives the fills.
StepArms step_arms(const StepRunner& runner, const schedule::Limits& limits,
                   const formats::Progress& progress);

LoopForm loop_form(llm::ResidentLoop loop);

/// Runs the steps that rank 0's loop plans, until rank 0 ends. Throws RanksBroken, or WaitOverdue
/// if this rank was the first to notice that another did not come. REQUIRES: a rank other than 0.
void follow_resident(const StepRunner& runner, const schedule::Limits& limits,
                     const llm::EngineOptions& options, const formats::Progress& progress);

}  // namespace attacca::engine
