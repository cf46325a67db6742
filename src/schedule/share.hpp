// share.hpp: how sequences share the tokens and rows of a step, and which waiting requests join.
// Decodes come first. The oldest prompt is sure of half of what is left, and most of the rest goes
// to prompts that have few tokens left, so a short prompt need not wait behind a long one. The
// rules and the bounds that follow from them are in docs/scheduling.md.
#pragma once

#include "schedule/lanes.hpp"
#include "schedule/requests.hpp"

namespace attacca::schedule::detail {

/// Tokens and rows of logits: what a step has left, or the most that a request may take of it.
struct Budget {
  std::uint32_t tokens;
  std::uint32_t rows;
};

ATTACCA_HD inline std::uint32_t least(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }
ATTACCA_HD inline Budget least(const Budget& a, const Budget& b) {
  return {least(a.tokens, b.tokens), least(a.rows, b.rows)};
}

/// The whole divided by `parts`, rounded up.
ATTACCA_HD inline Budget fraction(const Budget& whole, std::uint32_t parts) {
  return {(whole.tokens + parts - 1) / parts, (whole.rows + parts - 1) / parts};
}

/// How many tokens to compute next, after the first `computed`.
ATTACCA_HD inline std::uint32_t chunk_of(const State& state, const Entry& e, std::uint32_t computed,
                                         const Budget& most) {
  const std::uint32_t chunk = least(e.length - computed, state.limits.prefill_chunk);
  const std::uint32_t rows = e.may_sample() ? most.rows : 0;
  return least(least(chunk, most.tokens), e.wanted - computed + rows);
}

/// Rows of logits among the planned tokens.
ATTACCA_HD inline std::uint32_t rows_of(const Entry& e) {
  const std::uint32_t end = e.computed + e.planned;
  return end > e.wanted ? end - e.wanted : 0;
}

ATTACCA_HD inline bool is_decode(const Entry& e) { return e.length - e.computed == 1; }
/// Nothing of it can be planned now: it is spent, or sits out.
ATTACCA_HD inline bool rests(const Entry& e) {
  return e.is_spent() || (e.computed == e.wanted && !e.may_sample());
}
ATTACCA_HD inline bool is_prompt(const Entry& e) { return !rests(e) && !is_decode(e); }

/// Where a chunk's pages come from once none is free or idle.
enum class Pages : std::uint32_t {
  spare,    // nowhere; and it leaves a spare page for each other running request
  preempts  // from newer requests, which are preempted; the newest request gets none
};

/// Takes a page for a running request; kNone if it must do with those it has.
ATTACCA_HD inline std::uint32_t page_for(State& state, std::uint32_t entry, Pages pages) {
  if (pages == Pages::spare)
    return state.spare_pages() < state.running.count ? kNone : take_page(state);
  std::uint32_t page = take_page(state);
  while (page == kNone && state.running.last() != entry) {
    preempt_newest(state);
    page = take_page(state);
  }
  return page;
}

/// Plans a chunk of a running request, or a longer one than it has, and takes pages for it. Where
/// it gets no page, its chunk is cut. A preempted request's part of the budget is lost.
/// REQUIRES: `most` is no less than the request has already.
ATTACCA_HD ATTACCA_NOINLINE inline void allot(State& state, std::uint32_t entry, const Budget& most,
                                              Budget& left, Pages pages) {
  const std::uint32_t page_size = state.limits.page_size;
  Entry& e = state.entries[entry];
  Slot& slot = state.slots[e.slot];
  left.tokens += e.planned;
  left.rows += rows_of(e);
  std::uint32_t chunk = chunk_of(state, e, e.computed, least(most, left));
  while (slot.pages * page_size < e.computed + chunk) {
    const std::uint32_t page = page_for(state, entry, pages);
    if (page == kNone) {
      chunk = slot.pages * page_size - e.computed;
      ++state.statistics.shortened;
      break;
    }
    state.table(e.slot)[slot.pages++] = static_cast<std::int32_t>(page);
  }
  e.planned = chunk;
  left.tokens -= chunk;
  left.rows -= rows_of(e);
}

/// If a request's pages are all full, it takes over pages that others have cached meanwhile.
ATTACCA_HD inline void catch_up(State& state, std::uint32_t entry) {
  const Entry& e = state.entries[entry];
  const std::uint32_t pages = state.slots[e.slot].pages;
  if (pages * state.limits.page_size == e.computed)
    adopt_pages(state, entry, match_pages(state, entry, state.table(e.slot), pages));
}

/// Gives the first waiting request a free slot, if the spare pages are enough for the longest chunk
/// it may have and one more page for each running request. Its chunk of this step may be shorter,
/// but more requests than the pages are enough for would only preempt each other. No request
/// overtakes the first.
ATTACCA_HD ATTACCA_NOINLINE inline bool place_next(State& state, const Budget& most) {
  const std::uint32_t entry = state.waiting.first;
  const std::uint32_t slot = state.free_slots.last();
  if (entry == kNone || slot == kNone || most.tokens == 0) return false;
  if (state.spare_pages() <= state.running.count) return false;
  Entry& e = state.entries[entry];
  const std::uint32_t spare = state.spare_pages() - state.running.count;
  // If the spare pages were too few before, the prefix is looked up again only when there are more.
  if (state.is_blocked && state.blocked_id == e.request.id && spare <= state.blocked_spare)
    return false;

  const std::uint32_t found = match_pages(state, entry, state.table(slot), 0);
  std::uint32_t idle = 0;
  for (std::uint32_t index = 0; index < found; ++index)
    idle += state.pages[state.table(slot)[index]].references == 0;
  const std::uint32_t computed = found * state.limits.page_size;
  if (chunk_of(state, e, computed, most) == 0) return false;
  const std::uint32_t end = computed + least(e.length - computed, state.limits.prefill_chunk);
  state.is_blocked = state.limits.pages_for(end) - found + idle > spare;
  state.blocked_id = e.request.id;
  state.blocked_spare = spare;
  if (state.is_blocked) return false;

  state.waiting.remove(entry);
  state.running.push_back(entry);
  state.free_slots.pop_back();
  state.slots[slot].entry = entry;
  e.state = EntryState::running;
  e.slot = slot;
  e.is_changed = 0;
  adopt_pages(state, entry, found);
  state.plan.prepared[state.plan.counts->placed++] = static_cast<std::int32_t>(slot);
  return true;
}

/// The running prompts that have the fewest tokens left, fewest first, older ones first among
/// equals. A step's budget seldom lasts for more of them.
struct Shortest {
  static constexpr std::uint32_t kMost = 8;

  std::uint32_t count = 0;
  std::uint32_t entries[kMost];
  std::uint32_t lefts[kMost];

  ATTACCA_HD void add(std::uint32_t entry, std::uint32_t left) {
    if (count == kMost && left >= lefts[kMost - 1]) return;
    std::uint32_t at = count < kMost ? count++ : kMost - 1;
    for (; at > 0 && left < lefts[at - 1]; --at) {
      entries[at] = entries[at - 1];
      lefts[at] = lefts[at - 1];
    }
    entries[at] = entry;
    lefts[at] = left;
  }
};

/// Gives what is left of a step to the prompts from `oldest` on: to those with the fewest tokens
/// left, then to any, the oldest first.
ATTACCA_HD inline void share_rest(State& state, std::uint32_t oldest, Budget& left) {
  const Array& running = state.running;
  const Budget all{kNone, kNone};
  Shortest shortest;
  bool has_more = false;
  for (std::uint32_t at = oldest; at < running.count; ++at) {
    const Entry& e = state.entries[running[at]];
    const std::uint32_t to_do = e.length - e.computed - e.planned;
    if (!is_prompt(e) || to_do == 0 || e.planned == state.limits.prefill_chunk) continue;
    has_more |= shortest.count == Shortest::kMost;
    shortest.add(running[at], to_do);
  }
  for (std::uint32_t at = 0; at < shortest.count && left.tokens > 0; ++at)
    allot(state, shortest.entries[at], all, left, Pages::spare);
  if (!has_more) return;
  for (std::uint32_t at = oldest; at < running.count && left.tokens > 0; ++at)
    if (is_prompt(state.entries[running[at]])) allot(state, running[at], all, left, Pages::spare);
}

/// Shares what decodes leave of a step among prompts.
ATTACCA_HD inline void share_among_prompts(State& state, Budget& left) {
  const Array& running = state.running;
  const Budget half = fraction(left, 2), eighth = fraction(left, 8);
  std::uint32_t oldest = 0;
  while (oldest < running.count && !is_prompt(state.entries[running[oldest]])) ++oldest;
  if (oldest == running.count && !place_next(state, left)) return;
  // Only here may a prompt preempt others: before any request of this step is placed.
  allot(state, running[oldest], half, left, Pages::preempts);
  for (std::uint32_t at = oldest + 1; at < running.count; ++at) {
    const Entry& e = state.entries[running[at]];
    if (is_prompt(e) && chunk_of(state, e, e.computed, eighth) == e.length - e.computed)
      allot(state, running[at], eighth, left, Pages::spare);
  }
  while (place_next(state, least(eighth, left)))
    allot(state, running.last(), eighth, left, Pages::spare);
  if (left.tokens > 0) share_rest(state, oldest, left);
}

/// Decides one request after another.
ATTACCA_HD ATTACCA_NOINLINE inline void share_in_order(State& state) {
  const Limits& limits = state.limits;
  const Array& running = state.running;
  for (std::uint32_t at = 0; at < running.count; ++at)
    if (is_prompt(state.entries[running[at]])) catch_up(state, running[at]);
  Budget left{limits.step_tokens, limits.logit_rows};
  for (std::uint32_t at = 0; at < running.count; ++at) {
    const Entry& e = state.entries[running[at]];
    if (!rests(e) && is_decode(e)) allot(state, running[at], {1, 1}, left, Pages::preempts);
  }
  const bool has_decode = left.tokens < limits.step_tokens;
  if (has_decode) left.tokens -= limits.step_tokens - limits.decode_step_tokens;
  share_among_prompts(state, left);
}

/// What running requests need of the next step.
struct Needs {
  std::uint32_t prompts;
  std::uint32_t pages;  // of decodes

  ATTACCA_HD friend Needs operator+(const Needs& a, const Needs& b) {
    return {a.prompts + b.prompts, a.pages + b.pages};
  }
};

ATTACCA_HD inline Needs needs_of(const State& state, const Entry& e) {
  if (rests(e)) return {};
  if (!is_decode(e)) return {1, 0};
  return {0, state.slots[e.slot].pages * state.limits.page_size < e.length};
}

/// The common case of `share_in_order`: every request decodes or rests, and free pages are
/// enough. The requests that need a page get them in order; mostly none does, and nothing has to be
/// counted.
template <class Lanes>
ATTACCA_HD void share_among_decodes(State& state, const Lanes& lanes, std::uint32_t pages_needed) {
  Array& free = state.free_pages;
  if (pages_needed == 0) {
    for (std::uint32_t at = lanes.index(); at < state.running.count; at += lanes.count()) {
      Entry& e = state.entries[state.running[at]];
      e.planned = !rests(e);
    }
    return;
  }
  Numbering<Needs> pages;
  for (std::uint32_t first = 0; first < state.running.count; first += lanes.count()) {
    const std::uint32_t at = first + lanes.index();
    const std::uint32_t entry = at < state.running.count ? state.running[at] : kNone;
    const Needs needs = entry == kNone ? Needs{} : needs_of(state, state.entries[entry]);
    const std::uint32_t taken = pages.place(lanes, needs).pages;
    if (entry == kNone || rests(state.entries[entry])) continue;
    Entry& e = state.entries[entry];
    e.planned = 1;
    if (needs.pages == 0) continue;
    const std::uint32_t page = free[free.count - 1 - taken];
    state.pages[page].references = 1;
    state.table(e.slot)[state.slots[e.slot].pages++] = static_cast<std::int32_t>(page);
  }
  lanes.sync();
  if (is_first(lanes)) free.count -= pages.next().pages;
}

/// Decides how many tokens each running request computes in the next step, and which waiting
/// requests join: sets `planned` of every running request. Returns whether all are decodes, which
/// the lanes find out together; else some may not be.
template <class Lanes>
ATTACCA_HD bool share_step(State& state, const Lanes& lanes) {
  Numbering<Needs> needs;
  for (std::uint32_t first = 0; first < state.running.count; first += lanes.count()) {
    const std::uint32_t at = first + lanes.index();
    Needs own{};
    if (at < state.running.count) {
      Entry& e = state.entries[state.running[at]];
      e.planned = 0;
      own = needs_of(state, e);
    }
    needs.place(lanes, own);
  }
  const bool can_place = state.waiting.count > 0 && state.free_slots.count > 0;
  const bool is_common =
      needs.next().prompts == 0 && !can_place && needs.next().pages <= state.free_pages.count;
  lanes.sync();
  if (is_common)
    share_among_decodes(state, lanes, needs.next().pages);
  else if (is_first(lanes))
    share_in_order(state);
  lanes.sync();
  return is_common;
}

}  // namespace attacca::schedule::detail
