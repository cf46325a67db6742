// step.hpp: one step of continuous batching with chunked prefill. `plan_step` writes the tokens to
// compute where the kernels read; share.hpp chooses them. `commit_step` takes the sampled tokens. A
// step may be planned while the step before it runs: the plan assumes that every sequence goes on,
// and names an unknown token by the row that samples it. The rules are in docs/scheduling.md.
// Nothing here launches a kernel.
#pragma once

#include "schedule/share.hpp"

namespace attacca::schedule {

namespace detail {

/// Writes a request's planned tokens and rows into the step whose parts are at `place`.
ATTACCA_HD inline void write_part(State& state, std::uint32_t entry, std::uint32_t place) {
  const Entry& e = state.entries[entry];
  Plan& plan = state.plan;
  Counts& counts = *plan.counts;
  const auto slot = static_cast<std::int32_t>(e.slot);
  Slot& seat = state.slots[e.slot];
  state.parts_at(place)[state.part_count[place]++] = {entry,     e.slot,      seat.turn, e.computed,
                                                      e.planned, counts.rows, rows_of(e)};
  if (seat.told < seat.pages)
    plan.changes[counts.changes++] = {e.slot, seat.told, seat.pages - seat.told};
  seat.told = seat.pages;
  for (std::uint32_t position = e.computed; position < e.computed + e.planned; ++position) {
    const std::uint32_t token = counts.tokens++;
    const bool is_known = position < e.known();
    plan.tokens[token] = is_known ? state.history(entry)[position] : 0;
    plan.token_from[token] = is_known ? -1 : static_cast<std::int32_t>(e.row);
    plan.positions[token] = static_cast<std::int32_t>(position);
    plan.slots[token] = slot;
    if (position < e.wanted) continue;
    const std::uint32_t row = counts.rows++;
    plan.gather[row] = static_cast<std::int32_t>(token);
    plan.row_slots[row] = slot;
    plan.row_positions[row] = static_cast<std::int32_t>(position + 1);
    plan.row_forced[row] = position + 1 < e.length ? state.history(entry)[position + 1] : -1;
  }
}

ATTACCA_HD inline void write_parts(State& state, std::uint32_t place, bool decodes) {
  const List& running = state.running;
  for (std::uint32_t entry = running.first; entry != kNone; entry = running.after(entry)) {
    const Entry& e = state.entries[entry];
    if (e.planned > 0 && is_decode(e) == decodes) write_part(state, entry, place);
  }
}

/// Moves a request to where it will be after its part of a step has run.
ATTACCA_HD inline void advance(State& state, const Part& part) {
  Entry& e = state.entries[part.entry];
  e.computed += part.tokens;
  e.wanted += part.rows;
  if (e.wanted < e.length || e.length == e.request.prompt + e.request.max_new) return;
  e.row = part.first_row + part.rows - 1;
  ++e.length;
}

/// The index of the smallest size that fits the tokens; kNone if none does.
ATTACCA_HD inline std::uint32_t find_size(const Sizes& sizes, std::uint32_t tokens, bool pads) {
  for (std::uint32_t at = 0; at < sizes.count; ++at)
    if (sizes.of[at] == tokens || (sizes.of[at] > tokens && pads)) return at;
  return kNone;
}

/// Commits the row of a request's first position that is not settled, and returns its event.
ATTACCA_HD inline Event settle_row(State& state, const Part& part, std::uint32_t row,
                                   std::int32_t sampled, Ending ending) {
  Entry& e = state.entries[part.entry];
  const std::uint32_t position = ++e.settled;
  Event event{e.request.id, part.entry, row, position, -1, Ending::none};
  const std::uint32_t end = e.request.prompt + e.request.max_new;
  if (position >= e.request.prompt && position < end) {
    state.history(part.entry)[position] = sampled;
    event.ending = ending == Ending::none && position + 1 == end ? Ending::length : ending;
  } else if (position == end) {
    event.ending = Ending::length;
  }
  if (ending == Ending::not_finite) event.ending = ending;
  if (position < end) event.token = state.history(part.entry)[position];
  return event;
}

}  // namespace detail

/// The number of the graph for a step: for a decode step the smallest decode size that fits, else
/// the smallest mixed size that fits; kNone if no graph fits.
ATTACCA_HD inline std::uint32_t choose_graph(const Limits& limits, std::uint32_t tokens,
                                             bool is_decode) {
  std::uint32_t at = kNone;
  if (is_decode) at = detail::find_size(limits.decode_sizes, tokens, limits.pads);
  if (at != kNone) return at;
  at = detail::find_size(limits.mixed_sizes, tokens, limits.pads);
  return at == kNone ? kNone : limits.decode_sizes.count + at;
}

/// Plans the next step into `state.plan`, to run after the steps in flight. If the plan has no
/// tokens, there is nothing to do before one of those steps is committed.
/// REQUIRES: steps in flight read copies of their plans.
ATTACCA_HD inline void plan_step(State& state) {
  const Limits& limits = state.limits;
  Counts& counts = *state.plan.counts;
  counts = {};
  if (state.in_flight == kMostInFlight) return;

  detail::share_step(state);
  const std::uint32_t place = state.place_of_step(state.in_flight);
  state.part_count[place] = 0;
  detail::write_parts(state, place, true);
  counts.decodes = counts.tokens;
  detail::write_parts(state, place, false);
  if (counts.tokens == 0) return;
  for (std::uint32_t at = 0; at < state.part_count[place]; ++at)
    detail::advance(state, state.parts_at(place)[at]);
  counts.is_decode = counts.decodes == counts.tokens;
  counts.graph = choose_graph(limits, counts.tokens, counts.is_decode);
  Statistics& statistics = state.statistics;
  ++statistics.steps;
  statistics.ahead += state.in_flight;
  ++state.in_flight;
  statistics.decoded += counts.decodes;
  statistics.prefilled += counts.tokens - counts.decodes;
  if (counts.graph != kNone)
    statistics.padding += limits.graph_tokens(counts.graph) - counts.tokens;
}

/// Commits the oldest step in flight: `sampled[row]` has its `token` and its `ending`. Skips
/// requests that were cancelled, were preempted or have ended since the step was planned. Writes
/// `state.events`.
template <class Sampled>
ATTACCA_HD void commit_step(State& state, const Sampled* sampled) {
  const std::uint32_t page_size = state.limits.page_size;
  const std::uint32_t place = state.oldest;
  state.event_count = 0;
  if (state.in_flight == 0) return;
  state.oldest = state.place_of_step(1);
  --state.in_flight;
  for (std::uint32_t at = 0; at < state.part_count[place]; ++at) {
    const Part part = state.parts_at(place)[at];
    if (state.slots[part.slot].turn != part.turn) {
      state.statistics.voided += part.tokens;
      continue;
    }
    Ending ending = Ending::none;
    for (std::uint32_t row = part.first_row;
         row < part.first_row + part.rows && ending == Ending::none; ++row) {
      const Event event =
          detail::settle_row(state, part, row, sampled[row].token, sampled[row].ending);
      state.events[state.event_count++] = event;
      ending = event.ending;
    }
    // The step before is committed, so every token that this part computed is known. What gave
    // logits that are not finite is not kept for others.
    if (state.limits.shares_prefixes && ending != Ending::not_finite) {
      const std::uint32_t end = (part.first + part.tokens) / page_size;
      for (std::uint32_t index = part.first / page_size; index < end; ++index)
        detail::cache_page(state, part.entry, index);
    }
    if (ending == Ending::none) continue;
    detail::retire(state, part.entry);
    ++state.statistics.finished;
  }
}

}  // namespace attacca::schedule
