// step.hpp: one step of continuous batching with chunked prefill. `plan_step` writes the tokens to
// compute where the kernels read; share.hpp chooses them. `commit_step` takes the sampled tokens. A
// step may be planned while the step before it runs: the plan assumes that every sequence goes on,
// and names an unknown token by the row that samples it. The rules are in docs/scheduling.md.
// Nothing here launches a kernel. Lanes share the work (lanes.hpp); without any, one thread does
// it.
#pragma once

#include "schedule/share.hpp"

namespace attacca::schedule {

namespace detail {

/// Numbers in a step, of a part's own things or of the next ones.
struct PartPlace {
  std::uint32_t part;
  std::uint32_t token;
  std::uint32_t row;
  std::uint32_t change;
  std::uint32_t prepared;

  ATTACCA_HD friend PartPlace operator+(const PartPlace& a, const PartPlace& b) {
    return {a.part + b.part, a.token + b.token, a.row + b.row, a.change + b.change,
            a.prepared + b.prepared};
  }
};

/// Adds a request's part to those of a step, and what is new in its slot and its block table.
ATTACCA_HD inline Part write_part(State& state, std::uint32_t entry, Part* parts,
                                  const PartPlace& place) {
  Entry& e = state.entries[entry];
  Slot& seat = state.slots[e.slot];
  const Part part{.entry = entry,
                  .slot = e.slot,
                  .turn = seat.turn,
                  .first = e.computed,
                  .tokens = e.planned,
                  .rows = rows_of(e),
                  .first_token = place.token,
                  .first_row = place.row,
                  .ending = Ending::none};
  parts[place.part] = part;
  if (seat.told < seat.pages)
    state.plan.changes[place.change] = {e.slot, seat.told, seat.pages - seat.told};
  seat.told = seat.pages;
  if (e.is_changed) state.plan.prepared[place.prepared] = static_cast<std::int32_t>(e.slot);
  e.is_changed = 0;
  return part;
}

/// Writes the tokens and rows of a part where the kernels read them.
template <class Lanes>
ATTACCA_HD void write_tokens(State& state, const Lanes& lanes, const Part& part) {
  const Entry& e = state.entries[part.entry];
  const std::int32_t* const history = state.history(part.entry);
  const auto slot = static_cast<std::int32_t>(part.slot);
  Plan& plan = state.plan;
  for (std::uint32_t at = lanes.index(); at < part.tokens; at += lanes.count()) {
    const std::uint32_t position = part.first + at, token = part.first_token + at;
    const bool is_known = position < e.known();
    plan.tokens[token] = is_known ? history[position] : 0;
    plan.token_from[token] = is_known ? -1 : static_cast<std::int32_t>(e.row);
    plan.positions[token] = static_cast<std::int32_t>(position);
    plan.slots[token] = slot;
    if (position < e.wanted) continue;
    const std::uint32_t row = part.first_row + position - e.wanted;
    plan.gather[row] = static_cast<std::int32_t>(token);
    plan.row_slots[row] = slot;
    plan.row_positions[row] = static_cast<std::int32_t>(position + 1);
    plan.row_forced[row] = position + 1 < e.length ? history[position + 1] : -1;
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

/// Writes the part of every request that decodes, or of every one that does not. If `are_all`, they
/// are all of the step's: then a lane also writes the tokens of its part and moves its request on.
template <class Lanes>
ATTACCA_HD void write_parts(State& state, const Lanes& lanes, Part* parts, bool decodes,
                            bool are_all, Numbering<PartPlace>& places) {
  const Array& running = state.running;
  for (std::uint32_t first = 0; first < running.count; first += lanes.count()) {
    const std::uint32_t at = first + lanes.index();
    PartPlace takes{};
    if (at < running.count) {
      const Entry& e = state.entries[running[at]];
      const Slot& seat = state.slots[e.slot];
      if (e.planned > 0 && is_decode(e) == decodes)
        takes = {1, e.planned, rows_of(e), seat.told < seat.pages, e.is_changed};
    }
    const PartPlace place = places.place(lanes, takes);
    if (takes.part == 0) continue;
    const Part part = write_part(state, running[at], parts, place);
    if (!are_all) continue;
    write_tokens(state, OneLane(), part);
    advance(state, part);
  }
}

/// Writes the tokens of all parts, of which the first `decodes` have one each, and moves their
/// requests on.
template <class Lanes>
ATTACCA_HD void write_all_tokens(State& state, const Lanes& lanes, const Part* parts,
                                 std::uint32_t decodes, std::uint32_t count) {
  lanes.sync();
  for (std::uint32_t at = lanes.index(); at < decodes; at += lanes.count())
    write_tokens(state, OneLane(), parts[at]);
  for (std::uint32_t at = decodes; at < count; ++at) write_tokens(state, lanes, parts[at]);
  lanes.sync();
  for (std::uint32_t at = lanes.index(); at < count; at += lanes.count()) advance(state, parts[at]);
}

/// The index of the smallest size that fits the tokens; kNone if none does.
ATTACCA_HD inline std::uint32_t find_size(const Sizes& sizes, std::uint32_t tokens, bool pads) {
  for (std::uint32_t at = 0; at < sizes.count; ++at)
    if (sizes.of[at] == tokens || (sizes.of[at] > tokens && pads)) return at;
  return kNone;
}

/// The event of a part's row, the `at`th that is not settled.
template <class Sampled>
ATTACCA_HD Event event_of(const State& state, const Part& part, std::uint32_t at,
                          const Sampled* sampled) {
  const Entry& e = state.entries[part.entry];
  const std::uint32_t row = part.first_row + at, position = e.settled + 1 + at;
  const std::uint32_t end = e.request.prompt + e.request.max_new;
  const Ending ending = sampled[row].ending;
  Event event{e.request.id, part.entry, row, position, -1, Ending::none};
  if (position >= e.request.prompt && position < end) {
    event.token = sampled[row].token;
    event.ending = ending == Ending::none && position + 1 == end ? Ending::length : ending;
  } else if (position < end) {
    event.token = state.history(part.entry)[position];
  } else {
    event.ending = Ending::length;
  }
  if (ending == Ending::not_finite) event.ending = ending;
  return event;
}

/// How many events a part has, and whether the last one ends its request: none once its sequence
/// has left the slot, and none after its end.
struct PartEvents {
  std::uint32_t count;
  bool ends;
};
template <class Sampled>
ATTACCA_HD PartEvents events_of(const State& state, const Part& part, const Sampled* sampled) {
  PartEvents events{0, false};
  if (state.slots[part.slot].turn != part.turn) return events;
  while (events.count < part.rows && !events.ends)
    events.ends = event_of(state, part, events.count++, sampled).ending != Ending::none;
  return events;
}

/// What the parts of a step come to.
struct Settled {
  std::uint32_t events;
  std::uint32_t voided;   // tokens
  std::uint32_t to_keep;  // parts that fill pages or have ended

  ATTACCA_HD friend Settled operator+(const Settled& a, const Settled& b) {
    return {a.events + b.events, a.voided + b.voided, a.to_keep + b.to_keep};
  }
};

ATTACCA_HD inline bool fills_page(const State& state, const Part& part) {
  const std::uint32_t page_size = state.limits.page_size;
  return state.limits.shares_prefixes &&
         part.first / page_size < (part.first + part.tokens) / page_size;
}

/// Settles a part's rows, and returns how the request ended, if it did.
template <class Sampled>
ATTACCA_HD Ending settle_part(State& state, const Part& part, const Sampled* sampled,
                              std::uint32_t first_event, std::uint32_t count) {
  Entry& e = state.entries[part.entry];
  Ending ending = Ending::none;
  for (std::uint32_t at = 0; at < count; ++at) {
    const Event event = event_of(state, part, at, sampled);
    if (event.token >= 0) state.history(part.entry)[event.position] = event.token;
    state.events[first_event + at] = event;
    ending = event.ending;
  }
  e.settled += count;
  return ending;
}

/// Caches the pages that a part has filled, and ends its request if it has ended.
ATTACCA_HD inline void keep_part(State& state, const Part& part) {
  // The step before is settled, so every token that this part computed is known. What gave logits
  // that are not finite is not kept for others.
  if (fills_page(state, part) && part.ending != Ending::not_finite) {
    const std::uint32_t page_size = state.limits.page_size;
    const std::uint32_t end = (part.first + part.tokens) / page_size;
    for (std::uint32_t index = part.first / page_size; index < end; ++index)
      cache_page(state, part.entry, index);
  }
  if (part.ending == Ending::none) return;
  retire(state, part.entry);
  ++state.statistics.finished;
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
template <class Lanes = OneLane>
ATTACCA_HD void plan_step(State& state, const Lanes& lanes = {}) {
  const std::uint32_t in_flight = state.in_flight;
  Counts& counts = *state.plan.counts;
  lanes.sync();
  if (is_first(lanes)) counts = {};
  if (in_flight == kMostInFlight) return;

  lanes.sync();
  const bool is_all_decodes = detail::share_step(state, lanes);
  const std::uint32_t place = state.place_of_step(in_flight);
  Part* const parts = state.parts_at(place);
  Numbering<detail::PartPlace> places({0, 0, 0, 0, counts.placed});
  detail::write_parts(state, lanes, parts, true, is_all_decodes, places);
  const std::uint32_t decodes = places.next().part;
  if (!is_all_decodes) {
    detail::write_parts(state, lanes, parts, false, false, places);
    detail::write_all_tokens(state, lanes, parts, decodes, places.next().part);
  }
  const detail::PartPlace all = places.next();
  if (!is_first(lanes)) return;

  state.part_count[place] = all.part;
  counts.tokens = all.token;
  counts.rows = all.row;
  counts.changes = all.change;
  counts.prepared = all.prepared;
  counts.decodes = decodes;
  if (all.token == 0) return;
  counts.is_decode = decodes == all.token;
  counts.graph = choose_graph(state.limits, all.token, counts.is_decode);
  Statistics& statistics = state.statistics;
  ++statistics.steps;
  statistics.ahead += in_flight;
  ++state.in_flight;
  statistics.decoded += decodes;
  statistics.prefilled += all.token - decodes;
  if (counts.graph != kNone)
    statistics.padding += state.limits.graph_tokens(counts.graph) - all.token;
}

/// The first half of a commit: settles the rows of the oldest step in flight and writes
/// `state.events`. `sampled[row]` has its `token` and its `ending`. Skips requests that were
/// cancelled, were preempted or have ended since the step was planned.
template <class Sampled, class Lanes = OneLane>
ATTACCA_HD void settle_step(State& state, const Sampled* sampled, const Lanes& lanes = {}) {
  const bool has_step = state.in_flight > 0;
  const std::uint32_t place = state.oldest, next = state.place_of_step(1);
  Part* const parts = state.parts_at(place);
  const std::uint32_t count = has_step ? state.part_count[place] : 0;
  Numbering<detail::Settled> settled;
  for (std::uint32_t first = 0; first < count; first += lanes.count()) {
    const std::uint32_t at = first + lanes.index();
    detail::Settled own{};
    Part part{};
    if (at < count) {
      part = parts[at];
      const detail::PartEvents events = detail::events_of(state, part, sampled);
      own.events = events.count;
      own.voided = state.slots[part.slot].turn == part.turn ? 0 : part.tokens;
      own.to_keep = own.voided == 0 && (events.ends || detail::fills_page(state, part));
    }
    const detail::Settled begin = settled.place(lanes, own);
    if (at >= count) continue;
    parts[at].ending = detail::settle_part(state, part, sampled, begin.events, own.events);
    if (own.to_keep > 0) state.to_keep[begin.to_keep] = at;
  }
  lanes.sync();
  if (!is_first(lanes)) return;
  state.event_count = settled.next().events;
  state.to_keep_count = settled.next().to_keep;
  state.statistics.voided += settled.next().voided;
  if (!has_step) return;
  state.settled = place;
  state.oldest = next;
  --state.in_flight;
}

/// The second half: full pages enter the prefix cache, and requests that have ended leave. One
/// thread does it.
ATTACCA_HD inline void keep_step(State& state) {
  for (std::uint32_t at = 0; at < state.to_keep_count; ++at)
    detail::keep_part(state, state.parts_at(state.settled)[state.to_keep[at]]);
  state.to_keep_count = 0;
}

/// Commits the oldest step in flight.
template <class Sampled>
ATTACCA_HD void commit_step(State& state, const Sampled* sampled) {
  settle_step(state, sampled);
  keep_step(state);
}

}  // namespace attacca::schedule
