// rank_kernels.cpp: the bodies of the kernels of rank_kernels.hpp, for a block of a GPU or one
// thread of the host.
#include "resident/rank_kernels.hpp"

#include "resident/block_lanes.hpp"
#include "schedule/step.hpp"

namespace attacca::resident {
namespace {

using kernels::RankLink;
using schedule::is_first;

/// Copies a plan but for its counts and what only the sampler wants.
ATTACCA_HD void copy_plan(const BlockLanes& lanes, const schedule::Plan& from,
                          const schedule::Plan& to, const schedule::Counts& counts,
                          std::uint32_t table_stride) {
  const std::uint32_t first = lanes.index(), step = lanes.count();
  for (std::uint32_t at = first; at < counts.tokens; at += step) {
    to.tokens[at] = from.tokens[at];
    to.token_from[at] = from.token_from[at];
    to.positions[at] = from.positions[at];
    to.slots[at] = from.slots[at];
  }
  for (std::uint32_t at = first; at < counts.rows; at += step) {
    to.gather[at] = from.gather[at];
    to.row_slots[at] = from.row_slots[at];
    to.row_positions[at] = from.row_positions[at];
    to.row_forced[at] = from.row_forced[at];
  }
  for (std::uint32_t number = 0; number < counts.changes; ++number) {
    const schedule::TableChange change = from.changes[number];
    if (is_first(lanes)) to.changes[number] = change;
    const std::uint64_t begin = std::uint64_t{change.slot} * table_stride + change.first;
    for (std::uint32_t page = first; page < change.count; page += step)
      to.tables[begin + page] = from.tables[begin + page];
  }
}

struct SendPlanKernel {
  static constexpr const char* name = "send_plan";
  using Args = SendPlanArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const BlockLanes lanes(t);
    LoopState& loop = *a.loop;
    const bool is_lost = lanes.any(is_first(lanes) && a.link.lost() != 0);
    if (is_lost) {
      if (is_first(lanes)) {
        loop.is_over = 1;  // what the step before has sampled is void, and `plan` must not tell it
        a.graph.set(schedule::kNone);
        a.again.set(0);
      }
      return;
    }
    if (!loop.has_step && !loop.is_over) return;
    const schedule::Counts counts = loop.is_over ? schedule::Counts{} : *a.planned.counts;
    for (std::int32_t rank = 1; rank < a.link.ranks; ++rank) {
      const schedule::Plan& to = a.inboxes[rank].plan;
      copy_plan(lanes, a.planned, to, counts, loop.state.limits.table_stride());
      if (is_first(lanes)) *to.counts = counts;
    }
    lanes.sync();
    if (!is_first(lanes)) return;
    const std::uint32_t number = ++*a.sent;
    // The barrier orders the writes of all lanes before the release, which pairs with the acquire
    // in `take_plan`.
    for (std::int32_t rank = 1; rank < a.link.ranks; ++rank)
      RankLink::Word(*a.inboxes[rank].signal).store(number, device::release);
  }
};

struct TakePlanKernel {
  static constexpr const char* name = "take_plan";
  static constexpr auto& waits_for = kernels::kRankNames;
  using Args = TakePlanArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(WaitingThread& t, const Args& a) {
    const BlockLanes lanes(t);
    std::uint32_t who = 0;
    if (is_first(lanes)) {
      const std::uint32_t number = *a.taken + 1;
      who = a.link.wait(*a.inbox.signal, number, 0);
      if (who == 0)
        *a.taken = number;
      else
        a.link.report(t, who, number);
    }
    const bool is_lost = lanes.any(who != 0);
    const schedule::Counts counts = is_lost ? schedule::Counts{} : *a.inbox.plan.counts;
    copy_plan(lanes, a.inbox.plan, a.running, counts, a.table_stride);
    if (!is_first(lanes)) return;
    *a.running.counts = counts;
    a.graph.set(counts.tokens > 0 ? counts.graph : schedule::kNone);
    a.again.set(counts.tokens > 0);
  }
};

}  // namespace

const Kernel<SendPlanArgs>& send_plan() {
  static const Kernel<SendPlanArgs> kernel = make_kernel<SendPlanKernel>();
  return kernel;
}
const Kernel<TakePlanArgs>& take_plan() {
  static const Kernel<TakePlanArgs> kernel = make_kernel<TakePlanKernel>();
  return kernel;
}
Grid grid_of(const SendPlanArgs&, bool is_cuda) {
  return Grid{Dim3{1}, Dim3{is_cuda ? kMostLanes : 1}};
}
Grid grid_of(const TakePlanArgs&, bool is_cuda) {
  return Grid{Dim3{1}, Dim3{is_cuda ? kMostLanes : 1}};
}

}  // namespace attacca::resident
