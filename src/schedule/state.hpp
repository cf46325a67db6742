// state.hpp: everything the scheduling policy knows, as plain data in fixed memory that the host
// and kernels both can use. The policy itself is in requests.hpp, pages.hpp and step.hpp; host.hpp
// checks the limits and lays the state out in memory. `reset` empties it.
#pragma once

#include "core/ending.hpp"
#include "schedule/list.hpp"

namespace attacca::schedule {

/// Step sizes, in tokens, that have a graph; ascending.
struct Sizes {
  static constexpr std::uint32_t kMost = 32;

  std::uint32_t count = 0;
  std::uint32_t of[kMost] = {};
};

/// The sizes of an engine, fixed when it starts.
struct Limits {
  std::uint32_t slots = 0;          // sequences that run at once
  std::uint32_t requests = 0;       // running and waiting together
  std::uint32_t pages = 0;          // in the KV pool
  std::uint32_t page_size = 0;      // tokens; the policy takes any, attention 16, 32 or 64
  std::uint32_t max_context = 0;    // tokens of one request, prompt and generated
  std::uint32_t prefill_chunk = 0;  // most tokens of one request in one step
  std::uint32_t logit_rows = 0;     // most rows of one step; no fewer than slots
  std::uint32_t step_tokens = 0;    // most tokens of one step; no fewer than slots
  // Most tokens of a step in which a sequence decodes; from slots to step_tokens.
  std::uint32_t decode_step_tokens = 0;
  bool shares_prefixes = true;  // the prefix cache is on
  bool pads = true;             // a step may be smaller than the graph that runs it
  Sizes decode_sizes;           // graphs for decode steps; none is larger than slots
  Sizes mixed_sizes;            // graphs for any step

  // Graphs are numbered: first the decode sizes, then the mixed sizes.
  ATTACCA_HD std::uint32_t graph_count() const { return decode_sizes.count + mixed_sizes.count; }
  ATTACCA_HD bool is_decode_graph(std::uint32_t graph) const { return graph < decode_sizes.count; }
  ATTACCA_HD std::uint32_t graph_tokens(std::uint32_t graph) const {
    return is_decode_graph(graph) ? decode_sizes.of[graph]
                                  : mixed_sizes.of[graph - decode_sizes.count];
  }

  /// The most tokens of a step that is not a decode step.
  ATTACCA_HD std::uint32_t most_mixed() const {
    const std::uint32_t chunk = prefill_chunk < max_context ? prefill_chunk : max_context;
    const std::uint64_t all = static_cast<std::uint64_t>(slots) * chunk;
    return all < step_tokens ? static_cast<std::uint32_t>(all) : step_tokens;
  }
  ATTACCA_HD std::uint32_t pages_for(std::uint32_t tokens) const {
    return (tokens + page_size - 1) / page_size;
  }
  ATTACCA_HD std::uint32_t table_stride() const { return pages_for(max_context); }
};

/// How much of each of a plan's buffers is in use.
struct Counts {
  std::uint32_t tokens;
  std::uint32_t rows;
  std::uint32_t decodes;    // leading tokens; their sequences compute one token each
  std::uint32_t placed;     // sequences that got a slot in this step
  std::uint32_t prepared;   // their slots, and others that need new sampling parameters
  std::uint32_t changes;    // to block tables
  std::uint32_t is_decode;  // every token is the newest of its own sequence, and has a row
  std::uint32_t graph;      // the smallest that fits the step; kNone if none does
};

/// Pages that were added to a block table since the step before.
struct TableChange {
  std::uint32_t slot;
  std::uint32_t first;
  std::uint32_t count;
};

/// One step. Kernels read the fields up to `row_forced`. The rest is for the host, which sends
/// `changes` to the block tables that kernels read. The addresses never move.
/// A token that the step before samples is not known when this step is planned. Then `token_from`
/// is the row of that step that samples it; it is -1 where `tokens` has the token.
struct Plan {
  Counts* counts = nullptr;
  std::int32_t* tokens = nullptr;         // [step_tokens]
  std::int32_t* token_from = nullptr;     // [step_tokens]: see above
  std::int32_t* positions = nullptr;      // [step_tokens]
  std::int32_t* slots = nullptr;          // [step_tokens]
  std::int32_t* gather = nullptr;         // [logit_rows]: the row's token, by its place in the step
  std::int32_t* row_slots = nullptr;      // [logit_rows]
  std::int32_t* row_positions = nullptr;  // [logit_rows]: the position of the sampled token
  std::int32_t* row_forced = nullptr;  // [logit_rows]: the token at that position if known, or -1
  std::int32_t* prepared = nullptr;    // [slots]: slots that need new sampling parameters
  TableChange* changes = nullptr;      // [slots]: to `tables`, since the step before
  std::int32_t* tables = nullptr;      // [slots, table_stride]: page of position / page_size
};

/// The caller's request. The caller writes the prompt itself to `State::history`.
struct Request {
  std::uint64_t id = 0;           // the caller's own, unique among live requests
  std::uint32_t prompt = 0;       // tokens, at least 1
  std::uint32_t max_new = 0;      // tokens to generate; 0: only compute the prompt
  bool wants_all_logits = false;  // a row for each prompt position, not only the last
};

enum class EntryState : std::uint32_t { free, reserved, waiting, running };

/// A live request as it will be after the steps in flight, if it does not end before; only
/// `settled` counts committed steps alone.
/// INVARIANT: computed <= wanted < length, unless the request is spent.
struct Entry {
  Request request;
  EntryState state;
  std::uint32_t slot;       // kNone unless running
  std::uint32_t length;     // tokens in its history: prompt and generated
  std::uint32_t computed;   // leading tokens whose keys and values are in its pages
  std::uint32_t wanted;     // the first position whose logits are wanted and not planned yet
  std::uint32_t settled;    // the first position whose logits are wanted and not committed yet
  std::uint32_t planned;    // its tokens in the newest step
  std::uint32_t row;        // the row that samples its newest token, in the newest step that has it
  std::uint32_t permitted;  // the longest history after which it may sample; kNone: any
  std::uint32_t is_changed;  // its slot needs its sampling parameters again

  /// Leading tokens of the history that are known. The next one may be in flight.
  ATTACCA_HD std::uint32_t known() const {
    return settled < request.prompt ? request.prompt : settled + 1;
  }
  /// Nothing is left to plan: the request ends when the steps in flight are committed, or before.
  ATTACCA_HD bool is_spent() const {
    return wanted == request.prompt + (request.max_new > 0 ? request.max_new - 1 : 0);
  }
  /// Its next row may be planned; see `permit_next`.
  ATTACCA_HD bool may_sample() const { return length <= permitted; }
};

struct Slot {
  std::uint32_t entry;  // kNone where free
  std::uint32_t pages;  // in its table
  std::uint32_t told;   // leading pages that some step's `changes` already had
  std::uint32_t turn;   // how many requests have left the slot
};

/// A page is in use (references > 0), idle (no references, but cached) or free.
/// A cached page holds the keys and values of exactly the tokens kept for it, after those of its
/// parent.
struct Page {
  std::uint32_t references;  // block tables that hold it
  std::uint32_t is_cached;
  std::uint32_t parent;  // the page before it; kNone for the first
  std::uint32_t hash;    // of parent and tokens
  std::uint32_t next_in_bucket;
};

/// One sequence's share of a step. It is void once the sequence has left its slot.
struct Part {
  std::uint32_t entry;
  std::uint32_t slot;
  std::uint32_t turn;   // of the slot
  std::uint32_t first;  // position
  std::uint32_t tokens;
  std::uint32_t rows;
  std::uint32_t first_token;  // in the step
  std::uint32_t first_row;
  Ending ending;  // once the step is settled
};

/// A row of a committed step. A request's rows come in order of position. The last one has an
/// ending; by then the entry is free again.
struct Event {
  std::uint64_t id;
  std::uint32_t entry;
  std::uint32_t row;
  std::uint32_t position;  // of the token; may be in the prompt if the request wants all logits
  std::int32_t token;      // -1 for the last row of a request that generates nothing
  Ending ending;
};

/// The most steps that may be planned and not yet committed.
inline constexpr std::uint32_t kMostInFlight = 2;

struct Statistics {
  std::uint64_t steps = 0;
  std::uint64_t ahead = 0;      // steps planned while the step before was in flight
  std::uint64_t voided = 0;     // tokens computed for sequences that had left their slots
  std::uint64_t prefilled = 0;  // tokens computed several at a time
  std::uint64_t decoded = 0;    // tokens computed one by one
  std::uint64_t padding = 0;    // tokens of graphs that their steps did not use
  std::uint64_t shared = 0;     // tokens found in the prefix cache instead of computed
  std::uint64_t merged = 0;     // pages that two sequences computed, of which one was kept
  std::uint64_t evictions = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t shortened = 0;  // chunks cut short or put off because no page was left
  std::uint64_t finished = 0;
  std::uint64_t cancelled = 0;
};

/// Trivially copyable. The lanes of one call may work on it together (lanes.hpp); other threads may
/// not, meanwhile.
struct State {
  Limits limits;
  Plan plan;

  Entry* entries = nullptr;           // [requests]
  std::int32_t* histories = nullptr;  // [requests, max_context]
  Slot* slots = nullptr;              // [slots]
  Page* pages = nullptr;              // [pages]
  std::int32_t* contents = nullptr;   // [pages, page_size]: tokens of cached pages
  std::uint32_t* buckets = nullptr;   // [bucket_mask + 1]: first cached page of each hash bucket
  std::uint32_t bucket_mask = 0;
  Part* parts = nullptr;    // [kMostInFlight, slots]
  Event* events = nullptr;  // [logit_rows]
  std::uint32_t part_count[kMostInFlight] = {};
  std::uint32_t oldest = 0;     // where the parts of the oldest step in flight are
  std::uint32_t in_flight = 0;  // steps
  std::uint32_t settled = 0;    // where the parts of the step are that was settled last
  std::uint32_t event_count = 0;
  std::uint32_t* to_keep = nullptr;  // [slots]: parts of that step that fill pages or have ended
  std::uint32_t to_keep_count = 0;

  // INVARIANT: every running request arrived before every waiting one, and both lists are in order
  // of arrival.
  Array running;               // entries
  List waiting, free_entries;  // entries
  Array free_slots, free_pages;
  List idle_pages;  // least recently used first

  // The waiting request that found too few spare pages, and how many it found.
  std::uint64_t blocked_id = 0;
  std::uint32_t blocked_spare = 0;
  bool is_blocked = false;

  Statistics statistics;

  ATTACCA_HD std::int32_t* history(std::uint32_t entry) const {
    return histories + static_cast<std::uint64_t>(entry) * limits.max_context;
  }
  ATTACCA_HD std::int32_t* table(std::uint32_t slot) const {
    return plan.tables + static_cast<std::uint64_t>(slot) * limits.table_stride();
  }
  ATTACCA_HD std::int32_t* content(std::uint32_t page) const {
    return contents + static_cast<std::uint64_t>(page) * limits.page_size;
  }
  /// Where the parts of a step are. Age 0 is the oldest step in flight.
  ATTACCA_HD std::uint32_t place_of_step(std::uint32_t age) const {
    return (oldest + age) % kMostInFlight;
  }
  ATTACCA_HD Part* parts_at(std::uint32_t place) const {
    return parts + static_cast<std::uint64_t>(place) * limits.slots;
  }
  /// Pages that can be taken without a preemption.
  ATTACCA_HD std::uint32_t spare_pages() const { return free_pages.count + idle_pages.count; }
};

/// Empties the state: no request runs or waits, and no page is cached.
ATTACCA_HD inline void reset(State& state) {
  const Limits& limits = state.limits;
  state.free_entries.clear();
  state.waiting.clear();
  state.idle_pages.clear();
  state.running.count = state.free_slots.count = state.free_pages.count = 0;
  for (std::uint32_t entry = 0; entry < limits.requests; ++entry) {
    state.entries[entry] = {Request{}, EntryState::free, kNone, 0, 0, 0, 0, 0, 0, kNone, 0};
    state.free_entries.push_back(entry);
  }
  for (std::uint32_t slot = limits.slots; slot-- > 0;) {  // the first is taken first
    state.slots[slot] = {kNone, 0, 0, 0};
    state.free_slots.push_back(slot);
  }
  for (std::uint32_t page = limits.pages; page-- > 0;) {
    state.pages[page] = {0, 0, kNone, 0, kNone};
    state.free_pages.push_back(page);
  }
  for (std::uint32_t bucket = 0; bucket <= state.bucket_mask; ++bucket)
    state.buckets[bucket] = kNone;
  const std::uint64_t table_size = static_cast<std::uint64_t>(limits.slots) * limits.table_stride();
  for (std::uint64_t at = 0; at < table_size; ++at) state.plan.tables[at] = 0;
  *state.plan.counts = {};
  state.oldest = state.in_flight = state.settled = 0;
  state.event_count = state.to_keep_count = 0;
  for (std::uint32_t& count : state.part_count) count = 0;
  state.is_blocked = false;
  state.statistics = {};
}

}  // namespace attacca::schedule
