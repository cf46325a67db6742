// requests.hpp: the life of a request outside steps: reserve an entry, fill it, admit it, preempt
// it, end or cancel it. From admission to its end it waits or runs. step.hpp decides which
// requests run.
#pragma once

#include "schedule/pages.hpp"

namespace attacca::schedule {

enum class Admission : std::uint32_t { done, no_prompt, over_context, over_pages };

/// Takes a free entry; kNone if all are taken. The caller fills in its `request` and writes the
/// prompt to its history. Every reserved entry must go on to `admit`.
ATTACCA_HD inline std::uint32_t reserve(State& state) {
  const std::uint32_t entry = state.free_entries.pop_front();
  if (entry != kNone) state.entries[entry].state = EntryState::reserved;
  return entry;
}

/// The same for an entry that the caller has chosen. REQUIRES: it is free.
ATTACCA_HD inline void reserve(State& state, std::uint32_t entry) {
  state.free_entries.remove(entry);
  state.entries[entry].state = EntryState::reserved;
}

/// Decides whether a request could ever finish.
ATTACCA_HD inline Admission judge(const Limits& limits, const Request& request) {
  const std::uint64_t most = static_cast<std::uint64_t>(request.prompt) + request.max_new;
  if (request.prompt == 0) return Admission::no_prompt;
  if (most > limits.max_context) return Admission::over_context;
  if (most > static_cast<std::uint64_t>(limits.pages) * limits.page_size)
    return Admission::over_pages;
  return Admission::done;
}

/// Puts a filled entry at the end of the queue. A refused entry is free again.
ATTACCA_HD inline Admission admit(State& state, std::uint32_t entry) {
  Entry& e = state.entries[entry];
  const Admission admission = judge(state.limits, e.request);
  if (admission != Admission::done) {
    e.state = EntryState::free;
    state.free_entries.push_front(entry);
    return admission;
  }
  const std::uint32_t prompt = e.request.prompt;
  const std::uint32_t wanted = e.request.wants_all_logits ? 0 : prompt - 1;
  e = {e.request, EntryState::waiting, kNone, prompt, 0, wanted, wanted, 0, 0, kNone, 0};
  state.waiting.push_back(entry);
  return admission;
}

/// For a request whose caller must know each token before the next one is sampled: permits one
/// token more. Without the next call the request then sits out, and keeps its slot. Call it right
/// after `admit`, and when the newest token is committed. A preemption takes no permission back. A
/// running request is placed in its slot once more, because its mask has changed.
ATTACCA_HD inline void permit_next(State& state, std::uint32_t entry) {
  Entry& e = state.entries[entry];
  e.permitted = e.known();
  e.is_changed = e.state == EntryState::running;
}

/// Permits any number of tokens, until `hold`.
ATTACCA_HD inline void permit_all(State& state, std::uint32_t entry) {
  permit_next(state, entry);
  state.entries[entry].permitted = kNone;
}

/// Permits no token, until one of the others is called. REQUIRES: `admit` came right before.
ATTACCA_HD inline void withhold(State& state, std::uint32_t entry) {
  state.entries[entry].permitted = 0;
}

/// A running request sits out until it is permitted to go on. What steps in flight compute of it is
/// void: the next token is sampled later.
ATTACCA_HD inline void hold(State& state, std::uint32_t entry) {
  Entry& e = state.entries[entry];
  ++state.slots[e.slot].turn;
  e.length = e.known();
  e.wanted = e.settled;
  if (e.computed > e.wanted) e.computed = e.wanted;
  e.permitted = e.length - 1;
}

namespace detail {

/// Frees a running request's slot and pages. Its parts of steps in flight are void. Those steps may
/// still write to its pages; the pages' next owners run in later steps.
ATTACCA_HD ATTACCA_NOINLINE inline void leave_slot(State& state, std::uint32_t entry) {
  Entry& e = state.entries[entry];
  release_table(state, e.slot);
  state.slots[e.slot].entry = kNone;
  ++state.slots[e.slot].turn;
  state.free_slots.push_back(e.slot);
  state.running.remove(entry);
  e.slot = kNone;
  e.computed = e.planned = 0;
  e.wanted = e.settled;
  e.length = e.known();
}

/// Ends a request, whether it waits or runs.
ATTACCA_HD ATTACCA_NOINLINE inline void retire(State& state, std::uint32_t entry) {
  Entry& e = state.entries[entry];
  if (e.state == EntryState::running)
    leave_slot(state, entry);
  else
    state.waiting.remove(entry);
  e.state = EntryState::free;
  state.free_entries.push_front(entry);
}

/// Preemption by recompute: the newest running request waits again, ahead of all waiting requests.
/// It keeps the known tokens of its history. A token in flight is sampled again.
ATTACCA_HD inline void preempt_newest(State& state) {
  const std::uint32_t entry = state.running.last();
  leave_slot(state, entry);
  state.entries[entry].state = EntryState::waiting;
  state.waiting.push_front(entry);
  ++state.statistics.preemptions;
}

}  // namespace detail

/// Whether the entry has the request with this id.
ATTACCA_HD inline bool is_live(const State& state, std::uint32_t entry, std::uint64_t id) {
  if (entry >= state.limits.requests) return false;
  const Entry& e = state.entries[entry];
  return (e.state == EntryState::waiting || e.state == EntryState::running) && e.request.id == id;
}

/// Ends a request without an event. False: it has ended already. Allowed while steps run: nothing
/// takes its pages before the next `plan_step`.
ATTACCA_HD inline bool cancel(State& state, std::uint32_t entry, std::uint64_t id) {
  if (!is_live(state, entry, id)) return false;
  detail::retire(state, entry);
  ++state.statistics.cancelled;
  return true;
}

}  // namespace attacca::schedule
