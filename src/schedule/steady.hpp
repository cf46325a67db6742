// steady.hpp: the pass that a loop makes most of the time: the oldest of two steps in flight ended
// no request, and everybody decodes once more. Then a lane commits and plans one request in one go,
// from what it has loaded once; step.hpp would do the same in several rounds.
#pragma once

#include "schedule/step.hpp"

namespace attacca::schedule {

/// One lane's request in a steady pass.
struct SteadyPart {
  bool is_used = false;  // a lane beyond the last request has none
  std::uint32_t slot = 0;
  std::uint32_t computed = 0;
  std::uint32_t token_from = 0;
  Event event = {};  // its row of the oldest step
};

namespace detail {

/// Whether the part goes on as `make_steady_pass` would take it on.
template <class Sampled>
ATTACCA_HD bool is_steady(const State& state, const Part& part, std::uint32_t at,
                          const Sampled* sampled, SteadyPart& own) {
  if (part.entry != state.running[at] || part.first_token != at || part.first_row != at ||
      part.tokens != 1 || part.rows != 1 || fills_page(state, part))
    return false;
  const Entry e = state.entries[part.entry];
  const Slot seat = state.slots[part.slot];
  const std::uint32_t position = e.settled + 1, end = e.request.prompt + e.request.max_new;
  own = {true, part.slot, e.computed, e.row,
         Event{e.request.id, part.entry, at, position, sampled[at].token, Ending::none}};
  const bool goes_on = seat.turn == part.turn && sampled[at].ending == Ending::none &&
                       position >= e.request.prompt && position + 1 < end;
  const bool decodes = !rests(e) && is_decode(e) && e.computed == position + 1 &&
                       seat.pages * state.limits.page_size >= e.length;
  return goes_on && decodes && seat.told == seat.pages && !e.is_changed;
}

}  // namespace detail

/// Whether this lane has nothing against it that `make_steady_pass` commits the oldest step in
/// flight and plans the next one; it does if no lane has. Fills the lane's part and changes
/// nothing.
template <class Sampled, class Lanes>
ATTACCA_HD bool find_steady_part(const State& state, const Sampled* sampled, const Lanes& lanes,
                                 SteadyPart& own) {
  const std::uint32_t count = state.running.count, at = lanes.index();
  const bool can_place = state.waiting.count > 0 && state.free_slots.count > 0;
  own = {};
  if (state.in_flight != kMostInFlight || state.part_count[state.oldest] != count || count == 0 ||
      count > lanes.count() || can_place)
    return false;
  // The newest step has all running requests too, so the next one runs in the same graph.
  const Counts newest = *state.plan.counts;
  if (at >= count) return true;
  return detail::is_steady(state, state.parts_at(state.oldest)[at], at, sampled, own) &&
         newest.tokens == count && newest.is_decode != 0;
}

/// Does what `settle_step`, `keep_step` and `plan_step` would do, but writes no events: they are in
/// the lanes' parts. REQUIRES: `find_steady_part` said yes to every lane, which a barrier tells.
template <class Lanes>
ATTACCA_HD void make_steady_pass(State& state, const Lanes& lanes, const SteadyPart& own) {
  const std::uint32_t count = state.running.count, at = lanes.index(), place = state.oldest;
  Plan& plan = state.plan;
  if (own.is_used) {
    const auto slot = static_cast<std::int32_t>(own.slot);
    Entry& e = state.entries[own.event.entry];
    state.history(own.event.entry)[own.event.position] = own.event.token;
    state.parts_at(place)[at].first = own.computed;
    plan.tokens[at] = 0;
    plan.token_from[at] = static_cast<std::int32_t>(own.token_from);
    plan.positions[at] = static_cast<std::int32_t>(own.computed);
    plan.slots[at] = plan.row_slots[at] = slot;
    plan.gather[at] = static_cast<std::int32_t>(at);
    plan.row_positions[at] = static_cast<std::int32_t>(own.computed + 1);
    plan.row_forced[at] = -1;
    e.length = own.computed + 2;
    e.computed = e.wanted = own.computed + 1;
    e.settled = own.event.position;
    e.planned = 1;
    e.row = at;
  }
  lanes.sync();
  if (!is_first(lanes)) return;
  Counts& counts = *plan.counts;
  counts.placed = counts.prepared = counts.changes = 0;
  state.event_count = state.to_keep_count = 0;
  state.settled = place;
  state.oldest = state.place_of_step(1);
  Statistics& statistics = state.statistics;
  ++statistics.steps;
  ++statistics.ahead;
  statistics.decoded += count;
  if (counts.graph != kNone) statistics.padding += state.limits.graph_tokens(counts.graph) - count;
}

}  // namespace attacca::schedule
