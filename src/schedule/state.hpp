// state.hpp: all that the scheduling policy knows, as plain data in fixed memory, for the host and
// for kernels alike. host.hpp checks its limits and lays it out in memory; `reset` makes it empty.
#pragma once

#include "core/ending.hpp"
#include "schedule/list.hpp"

namespace attacca::schedule {

/// Tokens of a step that graphs exist for, ascending.
struct Sizes {
  static constexpr std::uint32_t kMost = 32;

  std::uint32_t count = 0;
  std::uint32_t of[kMost] = {};
};

/// What an engine was sized for.
struct Limits {
  std::uint32_t slots = 0;          // sequences that run at once
  std::uint32_t requests = 0;       // running and waiting together
  std::uint32_t pages = 0;          // of the KV pool
  std::uint32_t page_size = 0;      // tokens; the policy takes any, attention 16, 32 or 64
  std::uint32_t max_context = 0;    // tokens of one request, prompt and generated
  std::uint32_t prefill_chunk = 0;  // tokens of one request in one step, most
  std::uint32_t logit_rows = 0;     // of one step, most; no fewer than slots
  std::uint32_t step_tokens = 0;    // of one step, most; no fewer than slots
  bool shares_prefixes = true;      // full pages are cached and found again
  bool pads = true;                 // a step may be smaller than the graph that runs it
  Sizes decode_sizes;               // of graphs for decode steps; none is more than slots
  Sizes mixed_sizes;                // of graphs for any step

  // Graphs have numbers: those of decode sizes, then those of mixed sizes.
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

/// How much of a plan's buffers is real.
struct Counts {
  std::uint32_t tokens;
  std::uint32_t rows;
  std::uint32_t decodes;    // the first so many tokens are of sequences that compute just one
  std::uint32_t placed;     // sequences that got a slot in this step
  std::uint32_t changes;    // of block tables
  std::uint32_t is_decode;  // every token is the newest of a sequence of its own, and has a row
  std::uint32_t graph;      // the smallest that takes the step; kNone where none does
};

/// Pages of a table that steps before did not have.
struct TableChange {
  std::uint32_t slot;
  std::uint32_t first;
  std::uint32_t count;
};

/// One step, as its kernels read it up to `row_forced`; the rest is for the host, which keeps what
/// kernels read of tables. The addresses never move. A token that the step before it
/// samples is not known when this one is planned: `token_from` has the row it comes from there, and
/// -1 where `tokens` has it.
struct Plan {
  Counts* counts = nullptr;
  std::int32_t* tokens = nullptr;         // [step_tokens]
  std::int32_t* token_from = nullptr;     // [step_tokens]: see above
  std::int32_t* positions = nullptr;      // [step_tokens]
  std::int32_t* slots = nullptr;          // [step_tokens]
  std::int32_t* gather = nullptr;         // [logit_rows]: which token of the step a row is of
  std::int32_t* row_slots = nullptr;      // [logit_rows]
  std::int32_t* row_positions = nullptr;  // [logit_rows]: where the sampled token will stand
  std::int32_t* row_forced = nullptr;     // [logit_rows]: the token there if it is known, or -1
  std::int32_t* placed = nullptr;         // [slots]: what they sample with must be set anew
  TableChange* changes = nullptr;         // [slots]: of `tables`, since the step before
  std::int32_t* tables = nullptr;         // [slots, table_stride]: pages, by position / page_size
};

/// What a caller asks for. It writes the prompt to `State::history`.
struct Request {
  std::uint64_t id = 0;           // the caller's own, unique among live requests
  std::uint32_t prompt = 0;       // tokens, at least 1
  std::uint32_t max_new = 0;      // tokens to generate; 0: only compute the prompt
  bool wants_all_logits = false;  // a row for each prompt position, not only the last
};

enum class EntryState : std::uint32_t { free, reserved, waiting, running };

/// A live request, as it is once the steps in flight have run, if it goes on; `settled` is what was
/// committed. INVARIANT: computed <= wanted < length, unless it is spent.
struct Entry {
  Request request;
  EntryState state;
  std::uint32_t slot;      // kNone unless running
  std::uint32_t length;    // tokens in its history: the prompt and what was generated
  std::uint32_t computed;  // leading tokens whose keys and values are in its pages
  std::uint32_t wanted;    // logits are wanted from this position on
  std::uint32_t settled;   // they were, before this position
  std::uint32_t planned;   // tokens of it in the newest step
  std::uint32_t row;       // where the newest step that has it samples its newest token

  /// Leading tokens of its history that are known. The one after them may be in flight.
  ATTACCA_HD std::uint32_t known() const {
    return settled < request.prompt ? request.prompt : settled + 1;
  }
  /// Nothing is left to plan: it ends when the steps in flight are committed, if not before.
  ATTACCA_HD bool is_spent() const {
    return wanted == request.prompt + (request.max_new > 0 ? request.max_new - 1 : 0);
  }
};

struct Slot {
  std::uint32_t entry;  // kNone where free
  std::uint32_t pages;  // in its table
  std::uint32_t told;   // of them, the leading ones that `changes` have told of
  std::uint32_t turn;   // how many requests have left it
};

/// A page is in use (references > 0), idle (none, but its content may be asked for again) or free.
/// The content of a cached page is exact: the tokens kept for it, after those of its parent.
struct Page {
  std::uint32_t references;  // tables that hold it
  std::uint32_t is_cached;
  std::uint32_t parent;  // the page before it, kNone for a first one
  std::uint32_t hash;    // of parent and tokens
  std::uint32_t next_in_bucket;
};

/// What one sequence computes in a step. It is void once the sequence has left its slot.
struct Part {
  std::uint32_t entry;
  std::uint32_t slot;
  std::uint32_t turn;   // of the slot
  std::uint32_t first;  // position
  std::uint32_t tokens;
  std::uint32_t first_row;
  std::uint32_t rows;
};

/// A row of a committed step. A request's rows come in the order of their positions; its last has
/// an ending, and the entry is free again by then.
struct Event {
  std::uint64_t id;
  std::uint32_t entry;
  std::uint32_t row;
  std::uint32_t position;  // where the token stands; in the prompt where all logits were wanted
  std::int32_t token;      // -1 where the row is the last of a request that generates nothing
  Ending ending;
};

/// Steps that are planned and not yet committed, at most.
inline constexpr std::uint32_t kMostInFlight = 2;

struct Statistics {
  std::uint64_t steps = 0;
  std::uint64_t ahead = 0;      // of them, planned while the one before was in flight
  std::uint64_t voided = 0;     // tokens of sequences that left their slots meanwhile
  std::uint64_t prefilled = 0;  // tokens computed several at a time
  std::uint64_t decoded = 0;    // tokens computed one by one
  std::uint64_t padding = 0;    // tokens between the steps and their graphs
  std::uint64_t shared = 0;     // tokens found in the prefix cache instead of computed
  std::uint64_t merged = 0;     // pages computed twice at a time, then kept once
  std::uint64_t evictions = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t shortened = 0;  // chunks cut or put off because no page was left
  std::uint64_t finished = 0;
  std::uint64_t cancelled = 0;
};

/// Trivially copyable. Not thread safe: one thread calls the policy at a time.
struct State {
  Limits limits;
  Plan plan;

  Entry* entries = nullptr;           // [requests]
  std::int32_t* histories = nullptr;  // [requests, max_context]
  Slot* slots = nullptr;              // [slots]
  Page* pages = nullptr;              // [pages]
  std::int32_t* contents = nullptr;   // [pages, page_size]: tokens of cached pages
  std::uint32_t* buckets = nullptr;   // [bucket_mask + 1]: first cached page with such a hash
  std::uint32_t bucket_mask = 0;
  Part* parts = nullptr;    // [kMostInFlight, slots]
  Event* events = nullptr;  // [logit_rows]
  std::uint32_t part_count[kMostInFlight] = {};
  std::uint32_t oldest = 0;     // of the steps in flight, where its parts are
  std::uint32_t in_flight = 0;  // steps
  std::uint32_t event_count = 0;

  // INVARIANT: every running request arrived before every waiting one; both lists are in order.
  List free_entries, waiting, running;  // entries
  List free_slots;
  List free_pages, idle_pages;  // idle ones least recently used first

  // The waiting request that found too few pages to spare, and how many that was.
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
  /// Where the parts of a step are, by its age: 0 is the oldest in flight.
  ATTACCA_HD std::uint32_t place_of_step(std::uint32_t age) const {
    return (oldest + age) % kMostInFlight;
  }
  ATTACCA_HD Part* parts_at(std::uint32_t place) const {
    return parts + static_cast<std::uint64_t>(place) * limits.slots;
  }
  /// Pages that can be had without taking one from a sequence.
  ATTACCA_HD std::uint32_t spare_pages() const { return free_pages.count + idle_pages.count; }
};

/// Nothing running, nothing waiting, nothing cached.
ATTACCA_HD inline void reset(State& state) {
  const Limits& limits = state.limits;
  state.free_entries.clear();
  state.waiting.clear();
  state.running.clear();
  state.free_slots.clear();
  state.free_pages.clear();
  state.idle_pages.clear();
  for (std::uint32_t entry = 0; entry < limits.requests; ++entry) {
    state.entries[entry] = {Request{}, EntryState::free, kNone, 0, 0, 0, 0, 0, 0};
    state.free_entries.push_back(entry);
  }
  for (std::uint32_t slot = 0; slot < limits.slots; ++slot) {
    state.slots[slot] = {kNone, 0, 0, 0};
    state.free_slots.push_back(slot);
  }
  for (std::uint32_t page = 0; page < limits.pages; ++page) {
    state.pages[page] = {0, 0, kNone, 0, kNone};
    state.free_pages.push_back(page);
  }
  for (std::uint32_t bucket = 0; bucket <= state.bucket_mask; ++bucket)
    state.buckets[bucket] = kNone;
  const std::uint64_t table_size = static_cast<std::uint64_t>(limits.slots) * limits.table_stride();
  for (std::uint64_t at = 0; at < table_size; ++at) state.plan.tables[at] = 0;
  *state.plan.counts = {};
  state.oldest = state.in_flight = state.event_count = 0;
  state.is_blocked = false;
  state.statistics = {};
}

}  // namespace attacca::schedule
