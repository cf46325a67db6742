// The scheduling policy alone, in thousands of random workloads: requests that arrive over time,
// share prefixes and are cancelled, on pools too small for them. A store of keys and values records
// which prefix each position holds, so that a page shared wrongly, lost or overwritten is seen; and
// every request must get the tokens it would get alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

#include "engine/schedule_world.hpp"
#include "support/real_threads.hpp"

namespace attacca::test {
namespace {

using namespace schedule;

void require(bool is_true, const char* claim) {
  if (!is_true) throw std::runtime_error(claim);
}

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  std::uint32_t from(std::uint32_t least, std::uint32_t most) {
    return least + static_cast<std::uint32_t>(engine_() % (most - least + 1));
  }
  bool one_in(std::uint32_t n) { return from(1, n) == 1; }

 private:
  std::mt19937 engine_;
};

/// A request as the test knows it: what it asks for and all that must come of it.
struct Tracked {
  Request request;
  std::uint32_t entry = kNone;
  std::vector<std::int32_t> tokens;     // prompt and answer, computed alone
  std::vector<std::uint64_t> prefixes;  // of each position
  bool stops = false;                   // with the stop token
  std::uint32_t next_event = 0;         // position
  std::uint32_t next_write = 0;         // position, since it got its slot
  std::uint64_t deadline = 0;           // the step it must have ended by

  /// The position whose logits are wanted next.
  std::uint32_t wanted() const { return next_event - 1; }
  std::uint32_t length() const { return std::max(next_event, request.prompt); }
};

Tracked alone(const Request& request, std::vector<std::int32_t> prompt) {
  Tracked t;
  t.request = request;
  t.tokens = std::move(prompt);
  std::uint64_t prefix = 0;
  for (const std::int32_t token : t.tokens) t.prefixes.push_back(prefix = extend(prefix, token));
  while (t.tokens.size() < request.prompt + request.max_new && !t.stops) {
    t.tokens.push_back(next_token(prefix));
    t.prefixes.push_back(prefix = extend(prefix, t.tokens.back()));
    t.stops = t.tokens.back() == kStopToken;
  }
  t.next_event = request.wants_all_logits ? 1 : request.prompt;
  return t;
}

Limits random_limits(Dice& dice) {
  Limits limits;
  limits.slots = dice.from(1, 8);
  limits.requests = limits.slots + dice.from(0, 8);
  limits.page_size = 1u << dice.from(0, 3);
  limits.max_context = dice.from(2, 40);
  const std::uint32_t stride = limits.table_stride();
  limits.pages = dice.one_in(3) ? dice.from(1, limits.slots * stride + 4)
                                : dice.from((stride + 1) / 2, stride + stride / 2);
  limits.prefill_chunk = dice.from(1, dice.one_in(2) ? 6 : 40);
  limits.logit_rows = limits.slots + dice.from(0, 6);
  limits.step_tokens = limits.slots + dice.from(0, dice.one_in(2) ? 8 : 40);
  limits.pads = !dice.one_in(4);
  const auto sizes = [&](std::uint32_t most) {
    Sizes some;
    if (dice.one_in(6)) return some;
    for (std::uint32_t size = dice.from(1, 4); size <= most && some.count < Sizes::kMost;
         size += dice.from(1, 8))
      some.of[some.count++] = size;
    if (dice.one_in(2) && some.count > 0) some.of[some.count - 1] = most;
    return some;
  };
  limits.decode_sizes = sizes(limits.slots);
  limits.mixed_sizes = sizes(limits.step_tokens);
  return limits;
}

class World {
 public:
  explicit World(std::uint32_t seed)
      : dice_(seed),
        limits_(random_limits(dice_)),
        schedule_(limits_),
        cells_(limits_.pages * limits_.page_size) {
    for (std::uint32_t graph = 0; graph < limits_.graph_count(); ++graph)
      (limits_.is_decode_graph(graph) ? decode_graphs_
                                      : mixed_graphs_)[limits_.graph_tokens(graph)] = graph;
    for (auto& base : bases_)
      for (std::uint32_t at = 0; at < limits_.max_context; ++at) base.push_back(random_token());
  }

  void run() {
    std::uint32_t to_come = dice_.from(1, 16);
    while (to_come > 0 || !live_.empty()) {
      while (to_come > 0 && dice_.one_in(2)) to_come -= submit();
      if (dice_.one_in(50)) cancel_one();
      step();
    }
    plan_step(state());
    require(state().plan.counts->tokens == 0, "nothing is planned where nothing is live");
    require(state().spare_pages() == limits_.pages, "all pages come back");
  }

  const Statistics& statistics() { return state().statistics; }
  // Steps with a graph for decode steps, with one for mixed ones, and with none.
  std::uint64_t decoded_ = 0, mixed_ = 0, graphless_ = 0;

 private:
  State& state() { return schedule_.state; }
  std::int32_t random_token() { return static_cast<std::int32_t>(dice_.from(1, 2)); }
  Tracked& in_slot(std::int32_t slot) {
    const std::uint32_t entry = state().slots[slot].entry;
    require(entry != kNone, "a planned slot is taken");
    return live_.at(state().entries[entry].request.id);
  }
  std::uint64_t& cell(std::int32_t slot, std::uint32_t position) {
    const auto page = static_cast<std::uint32_t>(
        state().table(static_cast<std::uint32_t>(slot))[position / limits_.page_size]);
    return cells_.at(page * limits_.page_size + position % limits_.page_size);
  }

  /// Tokens that the oldest request computes in each step, at least.
  std::uint32_t pace(const Request& request) const {
    const std::uint32_t rows = limits_.logit_rows - limits_.slots + 1;
    const std::uint32_t tokens =
        std::min(limits_.prefill_chunk, limits_.step_tokens - limits_.slots + 1);
    return request.wants_all_logits ? std::min(tokens, rows) : tokens;
  }

  /// How many requests are dealt with: one, or none where there was no entry.
  std::uint32_t submit() {
    const auto& base = bases_[dice_.from(0, 1)];
    std::vector<std::int32_t> prompt(base.begin(),
                                     base.begin() + dice_.from(0, limits_.max_context / 2));
    while (prompt.empty() || dice_.one_in(2)) prompt.push_back(random_token());
    const Request request{
        ++last_id_, static_cast<std::uint32_t>(prompt.size()),
        dice_.from(0, dice_.one_in(4) ? 4 : limits_.max_context - limits_.max_context / 2),
        dice_.one_in(6)};
    const bool is_full = live_.size() == limits_.requests;
    const std::uint32_t most = request.prompt + request.max_new;
    const bool fits = most <= limits_.max_context && most <= limits_.pages * limits_.page_size;
    Tracked t = alone(request, prompt);
    t.entry = schedule_.submit(request, prompt);
    require((t.entry != kNone) == (fits && !is_full), "what fits is admitted, and nothing else");
    require(fits == why_refused(limits_, request).empty(), "a refusal has a reason");
    if (t.entry == kNone) return is_full ? 0 : 1;
    t.deadline = steps_;
    live_.emplace(request.id, std::move(t));
    for (const auto& [id, older] : live_)
      live_.at(request.id).deadline +=
          older.request.max_new +
          (older.request.prompt + pace(older.request) - 1) / pace(older.request);
    return 1;
  }

  void cancel_one() {
    if (live_.empty()) return;
    auto victim = live_.begin();
    std::advance(victim, dice_.from(0, static_cast<std::uint32_t>(live_.size()) - 1));
    require(!cancel(state(), victim->second.entry, victim->first + 1000), "an id must be right");
    require(cancel(state(), victim->second.entry, victim->first),
            "a live request can be cancelled");
    require(!cancel(state(), victim->second.entry, victim->first), "and only once");
    live_.erase(victim);
  }

  void step() {
    const std::vector<std::uint32_t> idle_before = idle_pages();
    std::vector<std::uint32_t> decoding;
    for (const auto& [id, t] : live_)
      if (detail::is_decode(state().entries[t.entry]) && state().entries[t.entry].slot != kNone)
        decoding.push_back(t.entry);
    plan_step(state());
    ++steps_;
    check_idle_order(idle_before, 0);
    check_pages();
    check_requests();
    check_placed();
    check_plan(decoding);
    const std::vector<Outcome> outcomes = compute();
    if (dice_.one_in(50)) cancel_one();
    if (dice_.one_in(6)) submit();
    const std::vector<std::uint32_t> idle_planned = idle_pages();
    const std::uint64_t merged_before = statistics().merged;
    commit_step(state(), outcomes.data());
    check_events();
    check_idle_order(idle_planned, statistics().merged - merged_before);
    check_pages();
  }

  // --- what is planned ---------------------------------------------------------------------

  void check_placed() {
    const Plan& plan = state().plan;
    require(plan.counts->placed == 0 || state().spare_pages() + 1 >= state().running.count,
            "a newcomer leaves a page for each that runs");
    for (std::uint32_t at = 0; at < plan.counts->placed; ++at) {
      Tracked& t = in_slot(plan.placed[at]);
      t.next_write = 0;
      require(state().entries[t.entry].planned > 0, "who gets a slot computes");
      // The longest chain of cached pages is shared: no page goes on with it.
      const Entry& e = state().entries[t.entry];
      const std::int32_t* table = state().table(e.slot);
      const std::uint32_t shared = e.computed / limits_.page_size;
      if ((shared + 1) * limits_.page_size > t.wanted()) continue;
      for (std::uint32_t page = 0; page < limits_.pages; ++page)
        require(!state().pages[page].is_cached ||
                    state().pages[page].parent != detail::parent_of(table, shared) ||
                    !std::equal(state().content(page), state().content(page) + limits_.page_size,
                                t.tokens.begin() + shared * limits_.page_size),
                "the longest cached prefix is shared");
    }
  }

  void check_plan(const std::vector<std::uint32_t>& decoding) {
    const Plan& plan = state().plan;
    const Counts& counts = *plan.counts;
    require(counts.tokens <= limits_.step_tokens, "the token budget is kept");
    require(counts.rows <= limits_.logit_rows, "the row budget is kept");
    std::uint32_t row = 0, newest = 0;
    std::map<std::uint64_t, std::uint32_t> planned;
    for (std::uint32_t at = 0; at < counts.tokens; ++at) {
      Tracked& t = in_slot(plan.slots[at]);
      const Entry& e = state().entries[t.entry];
      const std::uint32_t position = e.computed + planned[t.request.id]++;
      require(plan.positions[at] == static_cast<std::int32_t>(position), "positions follow on");
      require(position < t.length(), "only known tokens are computed");
      require(plan.tokens[at] == t.tokens[position], "tokens are the history's");
      require((e.length - e.computed == 1) == (at < counts.decodes), "decodes come first");
      newest += position + 1 == e.length && e.planned == 1;
      if (position < t.wanted()) continue;
      require(row < counts.rows && plan.gather[row] == static_cast<std::int32_t>(at) &&
                  plan.row_slots[row] == plan.slots[at] &&
                  plan.row_positions[row] == static_cast<std::int32_t>(position + 1),
              "wanted logits have a row");
      ++row;
    }
    require(row == counts.rows, "no row is unwanted");
    if (counts.tokens > 0) check_graph(newest == counts.tokens);
    require(!counts.is_decode || (planned.size() == counts.tokens && row == counts.tokens),
            "in a decode step each sequence has one token, and a row");
    for (const auto& [id, tokens] : planned)
      require(tokens <= limits_.prefill_chunk, "chunks are kept");
    for (const std::uint32_t entry : decoding)
      require(state().entries[entry].state == EntryState::waiting ||
                  planned.contains(state().entries[entry].request.id) || state().spare_pages() == 0,
              "who decodes goes on, unless all pages are in use");
    if (live_.empty()) return;
    const Tracked& oldest = live_.begin()->second;
    const Entry& e = state().entries[oldest.entry];
    require(planned[oldest.request.id] >= std::min(pace(oldest.request), e.length - e.computed),
            "the oldest keeps its pace");
  }

  void check_graph(bool is_decode) {
    const Counts& counts = *state().plan.counts;
    require(counts.is_decode == is_decode, "a decode step is called one, and no other");
    require(counts.tokens <= (is_decode ? limits_.slots : limits_.most_mixed()),
            "no step is larger than those that graphs are listed for");
    std::uint32_t graph = is_decode ? smallest(decode_graphs_, counts.tokens) : kNone;
    if (graph == kNone) graph = smallest(mixed_graphs_, counts.tokens);
    require(counts.graph == graph, "the graph is the smallest of the right kind that fits");
    (graph == kNone ? graphless_ : limits_.is_decode_graph(graph) ? decoded_ : mixed_)++;
    if (graph != kNone) padding_ += limits_.graph_tokens(graph) - counts.tokens;
    require(statistics().padding == padding_, "padding is what is left of the graphs");
  }
  std::uint32_t smallest(const std::map<std::uint32_t, std::uint32_t>& graphs,
                         std::uint32_t tokens) const {
    const auto found = limits_.pads ? graphs.lower_bound(tokens) : graphs.find(tokens);
    return found == graphs.end() ? kNone : found->second;
  }

  /// Runs the step on the store of keys and values.
  std::vector<Outcome> compute() {
    const Plan& plan = state().plan;
    std::vector<std::uint64_t> seen(plan.counts->tokens);
    for (std::uint32_t at = 0; at < plan.counts->tokens; ++at) {
      const std::int32_t slot = plan.slots[at];
      const auto position = static_cast<std::uint32_t>(plan.positions[at]);
      Tracked& t = in_slot(slot);
      if (at == 0 || plan.slots[at - 1] != slot)
        for (std::uint32_t before = 0; before < position; ++before)
          require(cell(slot, before) == t.prefixes[before], "pages hold the right prefix");
      const Page& page =
          state()
              .pages[state().table(static_cast<std::uint32_t>(slot))[position / limits_.page_size]];
      require(page.references == 1 && !page.is_cached, "nobody else reads a page that is written");
      require(position >= t.next_write, "a position is written once");
      t.next_write = position + 1;
      seen[at] = extend(position == 0 ? 0 : cell(slot, position - 1), plan.tokens[at]);
      cell(slot, position) = seen[at];
    }
    std::vector<Outcome> outcomes(plan.counts->rows);
    for (std::uint32_t row = 0; row < plan.counts->rows; ++row) {
      const Tracked& t = in_slot(plan.row_slots[row]);
      const auto position = static_cast<std::uint32_t>(plan.row_positions[row]);
      const std::int32_t token = next_token(seen[static_cast<std::size_t>(plan.gather[row])]);
      const bool is_last = position + 1 == t.request.prompt + t.request.max_new;
      outcomes[row] = {token, token == kStopToken           ? Ending::stop_token
                              : is_last && t.request.id % 2 ? Ending::length
                                                            : Ending::none};
      if (position < t.request.prompt) outcomes[row] = {-7, Ending::stop_token};  // not for us
    }
    return outcomes;
  }

  // --- what comes of it --------------------------------------------------------------------

  void check_events() {
    for (std::uint32_t at = 0; at < state().event_count; ++at) {
      const Event& event = state().events[at];
      const auto found = live_.find(event.id);
      require(found != live_.end(), "only live requests have events");
      Tracked& t = found->second;
      require(event.entry == t.entry && event.position == t.next_event, "tokens come in order");
      const bool has_token = event.position < t.tokens.size();
      require(event.token == (has_token ? t.tokens[event.position] : -1),
              "the tokens are as alone");
      const bool is_last =
          event.position + 1 >= t.tokens.size() && event.position >= t.request.prompt;
      require(event.ending == (!is_last  ? Ending::none
                               : t.stops ? Ending::stop_token
                                         : Ending::length),
              "a request ends as alone");
      require(steps_ <= t.deadline, "nobody waits longer than the bound");
      ++t.next_event;
      if (is_last) live_.erase(found);
    }
  }

  // --- what always holds -------------------------------------------------------------------

  std::vector<std::uint32_t> idle_pages() {
    std::vector<std::uint32_t> pages;
    for (std::uint32_t page = state().idle_pages.first; page != kNone;
         page = state().idle_pages.after(page))
      pages.push_back(page);
    return pages;
  }

  /// Pages leave the list at its front if evicted, anywhere if shared; others come to its end. A
  /// page that was merged with in a commit may be shared and idle again by its end.
  void check_idle_order(const std::vector<std::uint32_t>& before, std::uint64_t merged) {
    const std::vector<std::uint32_t> now = idle_pages();
    std::size_t kept = 0;
    std::uint64_t moved = 0;
    for (const std::uint32_t page : before) {
      const bool is_evicted = !state().pages[page].is_cached;
      require(!is_evicted || kept == 0, "the least recently used page is evicted first");
      if (is_evicted || state().pages[page].references > 0) continue;
      if (now.at(kept) == page)
        ++kept;
      else
        ++moved;
    }
    require(moved <= merged, "idle pages keep their order");
  }

  void check_pages() {
    std::vector<std::uint32_t> holders(limits_.pages);
    for (std::uint32_t slot = 0; slot < limits_.slots; ++slot)
      for (std::uint32_t at = 0; at < state().slots[slot].pages; ++at) {
        const auto page = static_cast<std::uint32_t>(state().table(slot)[at]);
        ++holders.at(page);
        require(!state().pages[page].is_cached ||
                    state().pages[page].parent == detail::parent_of(state().table(slot), at),
                "a cached page follows its parent");
      }
    std::vector<std::uint32_t> listed(limits_.pages);
    for (const List* list : {&state().free_pages, &state().idle_pages})
      for (std::uint32_t page = list->first; page != kNone; page = list->after(page)) {
        ++listed.at(page);
        require(state().pages[page].is_cached == (list == &state().idle_pages),
                "idle pages are cached and free ones are not");
      }
    for (std::uint32_t page = 0; page < limits_.pages; ++page) {
      const Page& p = state().pages[page];
      require(p.references == holders[page], "references are the tables that hold a page");
      require(listed[page] == (p.references == 0), "a page is in use, idle or free");
      if (!p.is_cached) continue;
      require(detail::find_page(state(), p.parent, state().content(page), p.hash) == page,
              "a cached page is found, and no other with its content");
      require(p.parent == kNone || state().pages[p.parent].is_cached,
              "a parent outlives its children");
    }
  }

  void check_requests() {
    std::size_t listed = 0;
    std::uint64_t last = 0;
    for (const List* list : {&state().running, &state().waiting})
      for (std::uint32_t entry = list->first; entry != kNone;
           entry = list->after(entry), ++listed) {
        const Entry& e = state().entries[entry];
        require(e.request.id > last, "nobody overtakes");
        require(live_.at(e.request.id).entry == entry, "a live request keeps its entry");
        last = e.request.id;
      }
    require(listed == live_.size(), "no request is lost");
    require(listed + state().free_entries.count == limits_.requests, "no entry is lost");
    require(state().running.count + state().free_slots.count == limits_.slots, "no slot is lost");
  }

  Dice dice_;
  Limits limits_;
  Schedule schedule_;
  std::vector<std::uint64_t> cells_;  // the prefix whose key and value a position of a page holds
  std::vector<std::int32_t> bases_[2];
  std::map<std::uint64_t, Tracked> live_;  // by id, which is the order of arrival
  std::map<std::uint32_t, std::uint32_t> decode_graphs_, mixed_graphs_;  // by size
  std::uint64_t last_id_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t padding_ = 0;
};

TEST(ScheduleSimulation, random_workloads_end_as_if_each_request_were_alone) {
  Statistics sum;
  std::uint64_t decoded = 0, mixed = 0, graphless = 0;
  for (std::uint32_t seed = 0; seed < 3000 / kSlowdown; ++seed) {
    try {
      World world(seed);
      world.run();
      const Statistics& s = world.statistics();
      sum.steps += s.steps;
      sum.shared += s.shared;
      sum.merged += s.merged;
      sum.evictions += s.evictions;
      sum.preemptions += s.preemptions;
      sum.shortened += s.shortened;
      sum.finished += s.finished;
      sum.cancelled += s.cancelled;
      decoded += world.decoded_;
      mixed += world.mixed_;
      graphless += world.graphless_;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": not so: " << error.what();
    }
  }
  // The workloads are worth something only if everything happens in them, often.
  for (const std::uint64_t count :
       {sum.shared, sum.merged, sum.evictions, sum.preemptions, sum.shortened, sum.finished,
        sum.cancelled, decoded, mixed, graphless})
    EXPECT_GT(count, 1000 / kSlowdown);
}

}  // namespace
}  // namespace attacca::test
