// Tests of the scheduling policy alone, in thousands of random workloads: requests arrive over
// time, share prefixes and are cancelled, on pools too small for them; a step is planned after the
// one before or while it runs. A store of keys and values records the prefix that each position
// holds, so a page that is shared wrongly, lost or overwritten is noticed. Every request must get
// the tokens it would get alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "schedule/workload.hpp"
#include "support/real_threads.hpp"

namespace attacca::test {
namespace {

using namespace schedule;

/// The kernels' view of a step: a copy that runs at some time between its launch and its commit.
struct Launched {
  Counts counts = {};
  std::vector<std::int32_t> tokens, token_from, positions, slots, gather, row_positions, tables;
  std::vector<std::uint64_t> ids;      // of each token's request
  std::vector<std::uint64_t> row_ids;  // of each row's request
  bool has_run = false;
  std::vector<Outcome> outcomes;
};

class World {
 public:
  /// `some_ask`: half of the requests need a permission for each token.
  World(std::uint32_t seed, bool runs_ahead, bool some_ask)
      : dice_(seed),
        runs_ahead_(runs_ahead),
        some_ask_(some_ask),
        limits_(random_limits(dice_)),
        schedule_(limits_),
        cells_(limits_.pages * limits_.page_size),
        tables_(std::size_t{limits_.slots} * limits_.table_stride(), -1) {
    for (std::uint32_t graph = 0; graph < limits_.graph_count(); ++graph)
      (limits_.is_decode_graph(graph) ? decode_graphs_
                                      : mixed_graphs_)[limits_.graph_tokens(graph)] = graph;
    for (auto& base : bases_)
      for (std::uint32_t at = 0; at < limits_.max_context; ++at) base.push_back(random_token());
  }

  void run() {
    std::uint32_t to_come = dice_.from(1, 16);
    while (to_come > 0 || !live_.empty() || !launched_.empty()) {
      while (to_come > 0 && dice_.one_in(2)) to_come -= submit();
      if (dice_.one_in(50)) cancel_one();
      step();
    }
    plan_step(state());
    require(state().plan.counts->tokens == 0, "nothing is planned where nothing is live");
    require(state().spare_pages() == limits_.pages, "all pages come back");
  }

  const Statistics& statistics() { return state().statistics; }
  // Steps in a graph of a decode size, in one of a mixed size, and without a graph.
  std::uint64_t decoded_ = 0, mixed_ = 0, graphless_ = 0;
  // Steps in which a decode bounds the tokens, and in which the oldest prompt shares with others.
  std::uint64_t bounded_ = 0, shared_ = 0;
  std::uint64_t asked_ = 0;  // tokens that were permitted
  std::uint64_t held_ = 0;   // times that a request was held

 private:
  State& state() { return schedule_.state; }
  std::int32_t random_token() { return static_cast<std::int32_t>(dice_.from(1, 2)); }
  Tracked& in_slot(std::int32_t slot) {
    const std::uint32_t entry = state().slots[slot].entry;
    require(entry != kNone, "a planned slot is taken");
    return live_.at(state().entries[entry].request.id);
  }
  std::uint64_t& cell(const Launched& step, std::int32_t slot, std::uint32_t position) {
    const auto page = static_cast<std::uint32_t>(
        step.tables[static_cast<std::uint32_t>(slot) * limits_.table_stride() +
                    position / limits_.page_size]);
    return cells_.at(page * limits_.page_size + position % limits_.page_size);
  }

  static std::uint32_t half(std::uint32_t n) { return n - n / 2; }

  /// The fewest tokens that the oldest request computes in a step.
  std::uint32_t pace(const Request& request) const {
    const std::uint32_t rows = half(limits_.logit_rows - limits_.slots + 1);
    const std::uint32_t tokens =
        std::min(limits_.prefill_chunk, half(limits_.decode_step_tokens - limits_.slots + 1));
    return request.wants_all_logits ? std::min(tokens, rows) : tokens;
  }

  /// Submits a request. Returns 1, or 0 if there was no free entry.
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
    t.asks = some_ask_ && !request.wants_all_logits && dice_.one_in(2);
    t.is_followed = t.asks && dice_.one_in(2);
    t.asks = t.asks && !t.is_followed;
    if (t.asks) permit_next(state(), t.entry);
    t.deadline = steps_;
    ever_.emplace(request.id, t);
    live_.emplace(request.id, std::move(t));
    // With steps ahead, a step is planned before requests that end in the one before free their
    // slots.
    for (const auto& [id, older] : live_)
      live_.at(request.id).deadline +=
          older.request.max_new + runs_ahead_ +
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
    for (auto& [id, t] : live_) {
      const Entry& e = state().entries[t.entry];
      t.row_before = t.next_row;
      if (t.asks && e.permitted < e.known() && dice_.one_in(2)) permit_next(state(), t.entry);
      if (t.is_followed && !e.may_sample() && dice_.one_in(2)) permit_all(state(), t.entry);
      if (schedule::detail::is_decode(e) && !schedule::detail::rests(e) && e.slot != kNone)
        decoding.push_back(t.entry);
    }
    const std::uint64_t preemptions = statistics().preemptions;
    plan_step(state());
    const bool has_step = state().plan.counts->tokens > 0;
    steps_ += has_step;
    check_idle_order(idle_before, 0);
    check_pages();
    check_requests();
    check_placed();
    check_plan(decoding);
    if (has_step) check_shares(decoding, statistics().preemptions > preemptions);
    if (has_step) launched_.push_back(copy_of_plan());
    require(state().in_flight == launched_.size(), "a step is in flight until it is committed");
    if (dice_.one_in(2)) compute_all();
    const std::size_t stay = runs_ahead_ && has_step && !dice_.one_in(8) ? 1 : 0;
    while (launched_.size() > stay) commit_oldest();
  }

  void commit_oldest() {
    compute(launched_.front());
    if (dice_.one_in(50)) cancel_one();
    if (dice_.one_in(6)) submit();
    const std::vector<std::uint32_t> idle_before = idle_pages();
    const std::uint64_t merged_before = statistics().merged;
    commit_step(state(), launched_.front().outcomes.data());
    launched_.pop_front();
    check_events();
    hold_some();
    check_idle_order(idle_before, statistics().merged - merged_before);
    check_pages();
    if (dice_.one_in(4)) compute_all();
  }

  // --- checks of a plan --------------------------------------------------------------------

  void check_placed() {
    const Plan& plan = state().plan;
    require(plan.counts->placed == 0 || state().spare_pages() + 1 >= state().running.count,
            "a newcomer leaves a page for each that runs");
    for (std::uint32_t at = 0; at < plan.counts->placed; ++at) {
      Tracked& t = in_slot(plan.prepared[at]);
      t.starts_over();
      require(state().entries[t.entry].planned > 0, "who gets a slot computes");
      // The longest chain of cached pages is shared: no cached page continues it.
      const Entry& e = state().entries[t.entry];
      const std::int32_t* table = state().table(e.slot);
      const std::uint32_t shared = (e.computed - e.planned) / limits_.page_size;
      if ((shared + 1) * limits_.page_size > t.next_row) continue;
      for (std::uint32_t page = 0; page < limits_.pages; ++page)
        require(!state().pages[page].is_cached ||
                    state().pages[page].parent != schedule::detail::parent_of(table, shared) ||
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
      const std::uint32_t computed = e.computed - e.planned;
      const std::uint32_t position = computed + planned[t.request.id]++;
      require(plan.positions[at] == static_cast<std::int32_t>(position), "positions follow on");
      require(position < t.length() && position < t.row_end(), "no token is computed too many");
      if (position < t.known())
        require(plan.token_from[at] == -1 && plan.tokens[at] == t.tokens[position],
                "tokens are the history's");
      else
        check_source(plan.token_from[at], t.request.id, position);
      const Page& page = state().pages[state().table(e.slot)[position / limits_.page_size]];
      require(page.references == 1 && !page.is_cached, "nobody else reads a page that is written");
      require(position >= t.next_write, "a position is written once");
      t.next_write = position + 1;
      require((t.length() - computed == 1) == (at < counts.decodes), "decodes come first");
      newest += position + 1 == t.length() && e.planned == 1;
      if (position < t.next_row) continue;
      require(row < counts.rows && plan.gather[row] == static_cast<std::int32_t>(at) &&
                  plan.row_slots[row] == plan.slots[at] &&
                  plan.row_positions[row] == static_cast<std::int32_t>(position + 1),
              "wanted logits have a row");
      require(!t.asks || position + 1 == t.known(), "who asks knows all tokens before a row");
      require(!t.asks || position + 1 == e.permitted, "and has a permission");
      asked_ += t.asks;
      ++row;
      ++t.next_row;
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
    if (live_.empty() || live_.begin()->second.was_spent() || live_.begin()->second.asks ||
        live_.begin()->second.is_followed)
      return;
    const Tracked& oldest = live_.begin()->second;
    const Entry& e = state().entries[oldest.entry];
    const std::uint32_t left = oldest.length() - (e.computed - e.planned);
    require(planned[oldest.request.id] >= std::min(pace(oldest.request), left),
            "the oldest keeps its pace");
  }

  /// Checks how prompts share what decodes leave of the step.
  void check_shares(const std::vector<std::uint32_t>& decoding, bool has_preempted) {
    const Plan& plan = state().plan;
    const bool has_decode = std::ranges::any_of(decoding, [&](std::uint32_t entry) {
      return state().entries[entry].slot != kNone && state().entries[entry].planned > 0;
    });
    require(!has_decode || plan.counts->tokens <= limits_.decode_step_tokens,
            "a prompt delays no decode beyond the bound");
    bounded_ += has_decode && plan.counts->tokens == limits_.decode_step_tokens;
    // The tokens of a decode that is preempted later in the plan are lost to the step.
    if (has_preempted) return;

    std::uint32_t firsts = plan.counts->decodes;  // decodes of sequences that had a slot
    const std::set<std::int32_t> placed(plan.prepared, plan.prepared + plan.counts->placed);
    for (std::uint32_t at = 0; at < plan.counts->decodes; ++at)
      firsts -= placed.contains(plan.slots[at]);
    const std::uint32_t tokens =
        (firsts > 0 ? limits_.decode_step_tokens : limits_.step_tokens) - firsts;
    const std::uint32_t rows = limits_.logit_rows - firsts;
    check_oldest_prompt(placed, tokens, rows);
  }

  void check_oldest_prompt(const std::set<std::int32_t>& placed, std::uint32_t tokens,
                           std::uint32_t rows) {
    for (const auto& [id, t] : live_) {
      const Entry& e = state().entries[t.entry];
      if (e.slot == kNone) return;
      const std::uint32_t computed = e.computed - e.planned;
      if (t.was_spent() ||
          (t.length() == computed + 1 && !placed.contains(static_cast<std::int32_t>(e.slot))))
        continue;
      if (t.asks || t.is_followed) return;
      const std::uint32_t wanted = std::max(t.row_before, computed);
      const std::uint32_t sure = std::min({t.length() - computed, limits_.prefill_chunk,
                                           half(tokens), wanted - computed + half(rows)});
      require(
          e.planned >= sure || (t.entry == state().running.last() && state().spare_pages() == 0),
          "the oldest prompt gets half, unless it is the newest and there are no pages");
      shared_ += e.planned < state().plan.counts->tokens - state().plan.counts->decodes;
      return;
    }
  }

  /// Checks the source of a token that is not known yet.
  void check_source(std::int32_t row, std::uint64_t id, std::uint32_t position) {
    require(launched_.size() == 1, "unknown tokens are of the step in flight");
    const Launched& step = launched_.back();
    require(row >= 0 && row < static_cast<std::int32_t>(step.counts.rows) &&
                step.row_ids[static_cast<std::size_t>(row)] == id &&
                step.row_positions[static_cast<std::size_t>(row)] ==
                    static_cast<std::int32_t>(position),
            "an unknown token comes from the row that samples it");
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

  Launched copy_of_plan() {
    const Plan& plan = state().plan;
    Launched step;
    step.counts = *plan.counts;
    const auto copy = [](const std::int32_t* from, std::size_t count) {
      return std::vector<std::int32_t>(from, from + count);
    };
    step.tokens = copy(plan.tokens, step.counts.tokens);
    step.token_from = copy(plan.token_from, step.counts.tokens);
    step.positions = copy(plan.positions, step.counts.tokens);
    step.slots = copy(plan.slots, step.counts.tokens);
    step.gather = copy(plan.gather, step.counts.rows);
    step.row_positions = copy(plan.row_positions, step.counts.rows);
    for (std::uint32_t at = 0; at < step.counts.changes; ++at) {
      const TableChange& change = plan.changes[at];
      const std::size_t first = std::size_t{change.slot} * limits_.table_stride() + change.first;
      std::copy_n(plan.tables + first, change.count,
                  tables_.begin() + static_cast<std::ptrdiff_t>(first));
    }
    step.tables = tables_;
    for (const std::int32_t slot : step.slots) step.ids.push_back(in_slot(slot).request.id);
    for (const std::int32_t at : step.gather)
      step.row_ids.push_back(step.ids[static_cast<std::size_t>(at)]);
    return step;
  }

  // --- steps that run ----------------------------------------------------------------------

  void compute_all() {
    for (Launched& step : launched_) compute(step);
  }

  /// Runs a step on the store of keys and values, unless it has run. REQUIRES: the steps before
  /// have run.
  void compute(Launched& step) {
    if (std::exchange(step.has_run, true)) return;
    std::vector<std::uint64_t> seen(step.counts.tokens);
    for (std::uint32_t at = 0; at < step.counts.tokens; ++at) {
      const std::int32_t slot = step.slots[at];
      const auto position = static_cast<std::uint32_t>(step.positions[at]);
      const Tracked& t = ever_.at(step.ids[at]);
      const auto end = static_cast<std::uint32_t>(t.tokens.size());
      if (at == 0 || step.slots[at - 1] != slot)
        for (std::uint32_t before = 0; before < std::min(position, end); ++before)
          require(cell(step, slot, before) == t.prefixes[before], "pages hold the right prefix");
      const std::int32_t from = step.token_from[at];
      const std::int32_t token =
          from < 0 ? step.tokens[at] : last_outcomes_.at(static_cast<std::size_t>(from)).token;
      // A request that stopped in the step before is computed in vain.
      require(position >= end || token == t.tokens[position], "the token is the right one");
      require(position <= end, "a sequence runs ahead by one token");
      seen[at] = extend(position == 0 ? 0 : cell(step, slot, position - 1), token);
      cell(step, slot, position) = seen[at];
    }
    for (std::uint32_t row = 0; row < step.counts.rows; ++row) {
      const Request& request = ever_.at(step.row_ids[row]).request;
      const auto position = static_cast<std::uint32_t>(step.row_positions[row]);
      const std::int32_t token = next_token(seen[static_cast<std::size_t>(step.gather[row])]);
      const bool is_last = position + 1 == request.prompt + request.max_new;
      step.outcomes.push_back({token, token == kStopToken         ? Ending::stop_token
                                      : is_last && request.id % 2 ? Ending::length
                                                                  : Ending::none});
      if (position < request.prompt)
        step.outcomes.back() = {-7, Ending::stop_token};  // the policy must ignore it
    }
    last_outcomes_ = step.outcomes;
  }

  // --- checks of events --------------------------------------------------------------------

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
      require(some_ask_ || steps_ <= t.deadline, "nobody waits longer than the bound");
      ++t.next_event;
      if (is_last) live_.erase(found);
    }
  }

  /// Right after a commit, as the sampler finds no mask for their next tokens.
  void hold_some() {
    for (std::uint32_t at = 0; at < state().event_count; ++at) {
      const auto found = live_.find(state().events[at].id);
      if (found == live_.end() || !found->second.is_followed || !dice_.one_in(4)) continue;
      Tracked& t = found->second;
      hold(state(), t.entry);
      t.next_row = t.row_before = t.next_event - 1;
      t.next_write = std::min(t.next_write, t.next_row);
      ++held_;
    }
  }

  // --- invariants --------------------------------------------------------------------------

  std::vector<std::uint32_t> idle_pages() {
    std::vector<std::uint32_t> pages;
    for (std::uint32_t page = state().idle_pages.first; page != kNone;
         page = state().idle_pages.after(page))
      pages.push_back(page);
    return pages;
  }

  /// An evicted page leaves the list at its front, a shared one anywhere; new idle pages come at
  /// its end. A page that a commit merged with may be shared and idle again when the commit ends.
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
        require(
            !state().pages[page].is_cached ||
                state().pages[page].parent == schedule::detail::parent_of(state().table(slot), at),
            "a cached page follows its parent");
      }
    std::vector<std::uint32_t> listed(limits_.pages);
    for (std::uint32_t at = 0; at < state().free_pages.count; ++at) {
      ++listed.at(state().free_pages[at]);
      require(!state().pages[state().free_pages[at]].is_cached, "free pages are not cached");
    }
    const List& idle = state().idle_pages;
    for (std::uint32_t page = idle.first; page != kNone; page = idle.after(page)) {
      ++listed.at(page);
      require(state().pages[page].is_cached, "idle pages are cached");
    }
    for (std::uint32_t page = 0; page < limits_.pages; ++page) {
      const Page& p = state().pages[page];
      require(p.references == holders[page], "references are the tables that hold a page");
      require(listed[page] == (p.references == 0), "a page is in use, idle or free");
      if (!p.is_cached) continue;
      require(schedule::detail::find_page(state(), p.parent, state().content(page), p.hash) == page,
              "a cached page is found, and no other with its content");
      require(p.parent == kNone || state().pages[p.parent].is_cached,
              "a parent outlives its children");
    }
  }

  void check_requests() {
    std::size_t listed = 0;
    std::uint64_t last = 0;
    const auto check = [&](std::uint32_t entry) {
      const Entry& e = state().entries[entry];
      require(e.request.id > last, "nobody overtakes");
      require(live_.at(e.request.id).entry == entry, "a live request keeps its entry");
      last = e.request.id;
      ++listed;
    };
    const List& waiting = state().waiting;
    for (std::uint32_t at = 0; at < state().running.count; ++at) check(state().running[at]);
    for (std::uint32_t entry = waiting.first; entry != kNone; entry = waiting.after(entry))
      check(entry);
    require(listed == live_.size(), "no request is lost");
    require(listed + state().free_entries.count == limits_.requests, "no entry is lost");
    require(state().running.count + state().free_slots.count == limits_.slots, "no slot is lost");
  }

  Dice dice_;
  bool runs_ahead_;
  bool some_ask_;
  Limits limits_;
  Schedule schedule_;
  std::vector<std::uint64_t> cells_;  // for each position of each page, the prefix it holds
  std::vector<std::int32_t> tables_;  // block tables, built from the steps' changes
  std::vector<std::int32_t> bases_[2];
  std::map<std::uint64_t, Tracked> live_;  // by id, which is the order of arrival
  std::map<std::uint64_t, Tracked> ever_;  // all admitted requests, as they were on admission
  std::deque<Launched> launched_;          // steps in flight, the oldest first
  std::vector<Outcome> last_outcomes_;     // of the step that ran last
  std::map<std::uint32_t, std::uint32_t> decode_graphs_, mixed_graphs_;  // by size
  std::uint64_t last_id_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t padding_ = 0;
};

/// Whether a step is planned ahead, and whether some requests need permissions.
class ScheduleSimulation : public testing::TestWithParam<std::tuple<bool, bool>> {};
std::string name_of(const testing::TestParamInfo<std::tuple<bool, bool>>& given) {
  const auto [runs_ahead, some_ask] = given.param;
  return std::string(runs_ahead ? "a_step_ahead" : "step_by_step") +
         (some_ask ? "_with_permissions" : "");
}
INSTANTIATE_TEST_SUITE_P(, ScheduleSimulation, testing::Combine(testing::Bool(), testing::Bool()),
                         name_of);

TEST_P(ScheduleSimulation, random_workloads_end_as_if_each_request_were_alone) {
  const auto [runs_ahead, some_ask] = GetParam();
  Statistics sum;
  std::uint64_t decoded = 0, mixed = 0, graphless = 0, bounded = 0, shared = 0, asked = 0, held = 0;
  for (std::uint32_t seed = 0; seed < 1500 / kSlowdown; ++seed) {
    try {
      World world(seed, runs_ahead, some_ask);
      world.run();
      const Statistics& s = world.statistics();
      sum.steps += s.steps;
      sum.ahead += s.ahead;
      sum.voided += s.voided;
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
      bounded += world.bounded_;
      shared += world.shared_;
      asked += world.asked_;
      held += world.held_;
    } catch (const std::exception& error) {
      FAIL() << "seed " << seed << ": not so: " << error.what();
    }
  }
  // The workloads are only worth something if every event happens in them often.
  for (const std::uint64_t count :
       {sum.shared, sum.merged, sum.evictions, sum.preemptions, sum.shortened, sum.finished,
        sum.cancelled, decoded, mixed, graphless, bounded, shared})
    EXPECT_GT(count, 500 / kSlowdown);
  EXPECT_EQ(asked > 500 / kSlowdown, some_ask);
  EXPECT_EQ(held > 500 / kSlowdown, some_ask);
  if (runs_ahead) {
    EXPECT_GT(sum.ahead, sum.steps / 2);
    EXPECT_GT(sum.voided, 500 / kSlowdown);
  } else {
    EXPECT_EQ(sum.ahead, 0u);
  }
}

}  // namespace
}  // namespace attacca::test
