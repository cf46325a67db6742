// loop_kernels.cpp: the bodies of the loop's kernels, for a block of a GPU or one thread of the
// host.
#include "resident/loop_kernels.hpp"

#include <attacca/llm.hpp>
#include <cstddef>
#include <cstring>

#include "kernels/sample/sampling.hpp"
#include "resident/block_lanes.hpp"
#include "schedule/steady.hpp"

namespace attacca::resident {
namespace {

using device::RingReader;
using device::RingWriter;
using kernels::Sampled;
using kernels::SamplingParams;
using schedule::is_first;
using schedule::State;

/// All lanes copy.
template <class T>
ATTACCA_HD void copy(const BlockLanes& lanes, T* to, const T* from, std::uint32_t count) {
  for (std::uint32_t at = lanes.index(); at < count; at += lanes.count()) to[at] = from[at];
}

ATTACCA_HD std::uint64_t now() { return device::NativeMemory::now(); }

/// Records the turn before `plan`, and `plan` itself. It does so at the end, with one atomic
/// addition for several marks: each trip to memory takes most of a microsecond. The first step of a
/// launch waits for the `first` plan, so that is recorded by the next one.
ATTACCA_HD void record(const PlanArgs& a, const PlanTimes& first, const PlanTimes& own) {
  if (a.is_first || (!a.records.items && !a.sites.plan)) return;
  using llm::StepMark;
  const auto number = [](StepMark mark) { return static_cast<std::uint32_t>(mark); };
  const auto add = [&](const device::SiteRef& site, std::uint64_t from, std::uint64_t to) {
    site.add_at(from, device::SiteEvent::begins);
    site.add_at(to, device::SiteEvent::ends);
  };
  const auto add_plan = [&](const PlanTimes& plan) {
    a.records.add_all({plan.began, plan.committed, plan.ended},
                      {number(StepMark::plan_begins), number(StepMark::plan_has_committed),
                       number(StepMark::plan_ends)});
    add(a.sites.commit, plan.began, plan.committed);
    add(a.sites.plan, plan.began, plan.ended);
  };
  if (first.began != 0) add_plan(first);
  a.records.add_all({a.loop->turn_began, a.loop->turn_ended},
                    {number(StepMark::turn_begins), number(StepMark::turn_ends)});
  add(a.sites.turn, a.loop->turn_began, a.loop->turn_ended);
  add_plan(own);
}

// --- plan --------------------------------------------------------------------------------------

ATTACCA_HD News row_news(const PlanArgs& a, const schedule::Event& event) {
  const Sampled& sampled = a.loop->sampled[event.row];
  News news{};
  news.kind = News::Kind::row;
  news.entry = event.entry;
  news.id = event.id;
  news.at = now();
  news.row = {event.position,
              event.token,
              event.ending,
              a.loop->cached_tokens[event.entry],
              sampled.mask,
              sampled.logprob,
              event.token >= 0 && sampled.tops > 0};
  return news;
}

/// Places in the ring of news, from the `first` on.
struct NewsPlaces {
  RingWriter<News>& news;
  std::uint32_t first;
  ATTACCA_HD News& operator()(std::uint32_t lane) const { return news.slot(first + lane).value; }
};

ATTACCA_HD News step_news(const PlanArgs& a) {
  News news{};
  news.kind = News::Kind::step;
  news.at = now();
  news.step = a.loop->counts;
  return news;
}

/// Publishes the events of the step before, then the step. `plan_step` has seen that there is room.
ATTACCA_HD void publish(const BlockLanes& lanes, const PlanArgs& a) {
  const State& state = a.loop->state;
  const std::uint32_t events = state.event_count;
  RingWriter<News> news(a.news, a.loop->news);
  RingWriter<Sampled> tops(a.tops, a.loop->tops);
  schedule::Numbering<std::uint32_t> tops_places;
  for (std::uint32_t first = 0; first < events; first += lanes.count()) {
    const std::uint32_t at = first + lanes.index();
    const News row = at < events ? row_news(a, state.events[at]) : News{};
    const std::uint32_t left = events - first;
    write_together(lanes, row, left < lanes.count() ? left : lanes.count(),
                   NewsPlaces{news, first});
    const bool has_tops = at < events && row.row.has_tops;
    if (!lanes.any(has_tops)) continue;
    const std::uint32_t place = tops_places.place(lanes, std::uint32_t{has_tops});
    if (has_tops) tops.put(place, a.loop->sampled[state.events[at].row]);
  }
  if (is_first(lanes)) news.put(events, step_news(a));
  lanes.sync();
  if (!is_first(lanes)) return;
  tops.publish(tops_places.next());
  news.publish(events + 1);
  a.loop->tops = tops.place();
  a.loop->news = news.place();
}

ATTACCA_HD void write_board(const State& state, Board& board) {
  using device::relaxed;
  const schedule::Statistics& s = state.statistics;
  board.steps.store(s.steps, relaxed);
  board.ahead.store(s.ahead, relaxed);
  board.voided.store(s.voided, relaxed);
  board.prefilled.store(s.prefilled, relaxed);
  board.decoded.store(s.decoded, relaxed);
  board.padding.store(s.padding, relaxed);
  board.shared.store(s.shared, relaxed);
  board.evictions.store(s.evictions, relaxed);
  board.preemptions.store(s.preemptions, relaxed);
  board.running.store(state.running.count, relaxed);
  board.waiting.store(state.waiting.count, relaxed);
  board.pages_in_use.store(state.limits.pages - state.spare_pages(), relaxed);
  board.pages_cached.store(state.idle_pages.count, relaxed);
}

/// Requests whose next mask the sampler did not find sit out.
ATTACCA_HD void note_masks(const BlockLanes& lanes, const PlanArgs& a) {
  State& state = a.loop->state;
  for (std::uint32_t at = lanes.index(); at < state.event_count; at += lanes.count()) {
    const schedule::Event& event = state.events[at];
    if (event.ending != Ending::none) continue;
    const std::uint32_t mask = a.loop->sampled[event.row].mask;
    if (mask == SamplingParams::kUnknownMask)
      schedule::hold(state, event.entry);
    else
      a.loop->masks[event.entry] = mask;
  }
}

/// How many orders were ever written. In a pass this is a read across the bus on whose answer
/// nothing waits while the step before is settled; mostly it brings nothing new. The first plan of
/// a launch has nothing to settle, but an order to take in, and so looks properly at once.
ATTACCA_HD std::uint64_t look_for_orders(const PlanArgs& a) {
  RingReader<Order> orders(a.orders, a.loop->orders);
  if (!a.is_first) return orders.glance();
  orders.available(a.orders.mask + 1);
  a.loop->orders = orders.place();
  return a.loop->orders.other;
}

/// Takes the next of the first `written` orders, if there would be room for its answer too; else
/// `none`.
ATTACCA_HD void take_order(const PlanArgs& a, std::uint64_t written) {
  LoopState& loop = *a.loop;
  loop.order.kind = Order::Kind::none;
  if (written == loop.orders.own) return;
  const std::uint32_t wanted = news_wanted(loop.state.limits);
  RingWriter<News> news(a.news, loop.news);
  RingReader<Order> orders(a.orders, loop.orders);
  if (news.room(wanted) >= wanted) orders.try_pop(loop.order);
  loop.news = news.place();
  loop.orders = orders.place();
}

ATTACCA_HD void push_news(const device::RingRef<News>& ring, device::RingPlace& place,
                          const News& item) {
  RingWriter<News> news(ring, place);
  news.try_push(item);
  place = news.place();
}

ATTACCA_HD void answer(const PlanArgs& a, const Order& order, News::Kind kind) {
  News answer{};
  answer.kind = kind;
  answer.entry = order.entry;
  answer.id = order.id;
  answer.at = now();
  push_news(a.news, a.loop->news, answer);
}

/// All that a letter has but biases crosses the bus here, at once: no read waits for the answer to
/// another, and `turn` finds it in the device's own memory.
ATTACCA_HD void admit(const BlockLanes& lanes, const PlanArgs& a, const Order& order) {
  State& state = a.loop->state;
  const std::uint32_t entry = order.entry;
  constexpr std::uint32_t kStops = SamplingParams::kMaxStopTokens;
  Letters::Letter letter;
  if (is_first(lanes)) letter = a.letters.letters[entry];
  copy(lanes, state.history(entry),
       a.letters.prompts + static_cast<std::uint64_t>(entry) * state.limits.max_context,
       order.prompt);
  copy(lanes, a.loop->stop + std::uint64_t{entry} * kStops,
       a.letters.stop + std::uint64_t{entry} * kStops, kStops);
  if (!is_first(lanes)) return;
  a.loop->params[entry] = letter.params;
  schedule::reserve(state, entry);
  state.entries[entry].request = letter.request;
  schedule::admit(state, entry);  // the host asked `judge` before
  a.loop->masks[entry] = SamplingParams::kAllTokens;
  if (letter.is_masked) schedule::withhold(state, entry);
}

/// The step that runs reads neither the row nor, before it has ended, what the edge leads to.
ATTACCA_HD void permit(const BlockLanes& lanes, const PlanArgs& a, const Order& order) {
  const std::uint32_t words = kernels::mask_words(a.slots.vocabulary);
  if (order.is_new)
    copy(lanes, a.slots.masks + std::uint64_t{order.mask} * words,
         a.letters.masks + std::uint64_t{order.entry} * words, words);
  if (!is_first(lanes)) return;
  if (order.from != kernels::MaskEdges::kNone)
    a.slots.edges.put(order.from, order.token, order.mask);
  if (order.loops) a.slots.edges.put(order.mask, kernels::MaskEdges::kPlainTokens, order.mask);
  State& state = a.loop->state;
  if (!schedule::is_live(state, order.entry, order.id)) return;
  a.loop->masks[order.entry] = order.mask;
  if (order.many)
    schedule::permit_all(state, order.entry);
  else
    schedule::permit_next(state, order.entry);
}

ATTACCA_HD void forget_edges(const BlockLanes& lanes, const PlanArgs& a, const Order& order) {
  for (std::uint32_t at = lanes.index(); at < kernels::MaskEdges::kCount; at += lanes.count())
    a.slots.edges.clear(at);
  if (is_first(lanes)) answer(a, order, News::Kind::forgotten);
}

/// `written`: how many orders there were when `plan` began, as the first lane saw it. Those that
/// came later wait for the next plan.
ATTACCA_HD void take_in_orders(const BlockLanes& lanes, const PlanArgs& a, std::uint64_t written) {
  LoopState& loop = *a.loop;
  for (;;) {
    if (is_first(lanes)) take_order(a, written);
    lanes.sync();
    const Order order = loop.order;
    switch (order.kind) {
      case Order::Kind::none:
        return;
      case Order::Kind::admit:
        admit(lanes, a, order);
        break;
      case Order::Kind::cancel:
        if (!is_first(lanes)) break;
        schedule::cancel(loop.state, order.entry, order.id);
        answer(a, order, News::Kind::cancelled);
        break;
      case Order::Kind::permit:
        permit(lanes, a, order);
        break;
      case Order::Kind::forget:
        forget_edges(lanes, a, order);
        break;
      case Order::Kind::pause:
        if (is_first(lanes)) loop.is_paused = 1;
        break;
    }
    lanes.sync();
  }
}

/// Whether every row of another step could be published, once `first` news are.
ATTACCA_HD bool has_room(const PlanArgs& a, std::uint32_t first = 0) {
  LoopState& loop = *a.loop;
  const schedule::Limits& limits = loop.state.limits;
  const std::uint32_t wanted = first + news_wanted(limits);
  RingWriter<News> news(a.news, loop.news);
  RingWriter<Sampled> tops(a.tops, loop.tops);
  const bool has_both =
      news.room(wanted) >= wanted && tops.room(2 * limits.logit_rows) >= 2 * limits.logit_rows;
  loop.news = news.place();
  loop.tops = tops.place();
  return has_both;
}

ATTACCA_HD void commit(const BlockLanes& lanes, const PlanArgs& a) {
  State& state = a.loop->state;
  schedule::settle_step(state, a.loop->sampled, lanes);
  lanes.sync();
  publish(lanes, a);
  if (is_first(lanes)) schedule::keep_step(state);
  lanes.sync();
  note_masks(lanes, a);
}

ATTACCA_HD void plan_next(const BlockLanes& lanes, const PlanArgs& a, std::uint64_t written) {
  LoopState& loop = *a.loop;
  take_in_orders(lanes, a, written);
  if (is_first(lanes)) loop.is_full = !has_room(a);
  lanes.sync();
  if (!loop.is_full && !loop.is_paused)
    schedule::plan_step(loop.state, lanes);
  else if (is_first(lanes))
    *loop.state.plan.counts = {};
  if (!is_first(lanes)) return;
  schedule::Counts& counts = *loop.state.plan.counts;
  if (counts.tokens == 0) counts.graph = schedule::kNone;  // the next pass has no step
}

/// Commits the step before and plans the next one at once, where nobody has ended, no order has
/// come and each lane has one request at most. False: nothing was done.
ATTACCA_HD bool pass_steadily(const BlockLanes& lanes, const PlanArgs& a, std::uint64_t written) {
  LoopState& loop = *a.loop;
  const std::uint32_t rows = loop.state.running.count;
  schedule::SteadyPart own;
  bool is_steady = schedule::find_steady_part(loop.state, loop.sampled, lanes, own);
  News row{};
  if (own.is_used) {
    row = row_news(a, own.event);
    is_steady &= !row.row.has_tops && row.row.mask != SamplingParams::kUnknownMask;
  }
  if (is_first(lanes))
    is_steady &= written == loop.orders.own && !loop.is_paused && has_room(a, rows + 1);
  if (lanes.any(!is_steady)) return false;
  RingWriter<News> news(a.news, loop.news);
  write_together(lanes, row, rows, NewsPlaces{news, 0});
  if (is_first(lanes)) news.put(rows, step_news(a));
  if (own.is_used) loop.masks[own.event.entry] = row.row.mask;
  schedule::make_steady_pass(loop.state, lanes, own);
  if (!is_first(lanes)) return true;
  news.publish(rows + 1);  // behind the barrier of the pass, so every lane has put its row
  loop.news = news.place();
  return true;
}

struct PlanKernel {
  static constexpr const char* name = "plan";
  using Args = PlanArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(Thread& t, const Args& args) {
    const BlockLanes lanes(t);
    const std::uint64_t began = now();
    const StagedCopy<LoopState> staged(lanes, args.loop);
    Args a = args;
    a.loop = staged.get();
    LoopState& loop = *a.loop;
    if (loop.is_over && !a.is_first) return;
    const State& state = loop.state;
    prefetch(lanes, state.entries, state.limits.requests);
    prefetch(lanes, state.slots, state.limits.slots);
    prefetch(lanes, state.running.items, state.running.count);
    prefetch(lanes, loop.cached_tokens, state.limits.requests);
    const std::uint64_t written = is_first(lanes) ? look_for_orders(a) : 0;
    const bool is_steady = loop.has_sampled && pass_steadily(lanes, a, written);
    if (loop.has_sampled && !is_steady) commit(lanes, a);
    const std::uint64_t committed = now();
    lanes.sync();
    if (!is_steady) plan_next(lanes, a, written);
    const PlanTimes first = loop.first_plan;
    lanes.sync();  // every lane has read it
    if (is_first(lanes)) loop.first_plan = {a.is_first ? began : 0, committed, now()};
    staged.write_back(lanes);
    if (!is_first(lanes)) return;
    // The first step waits for what is written across the bus, and the plan beside it writes again.
    if (!a.is_first || loop.state.in_flight == 0) write_board(loop.state, *a.board);
    record(a, first, {began, committed, now()});
  }
};

// --- turn --------------------------------------------------------------------------------------

/// Rebuilds what a slot's penalties know of the tokens of its history.
ATTACCA_HD void mark_tokens(const BlockLanes& lanes, const TurnArgs& a, std::uint32_t slot,
                            const schedule::Entry& e, const std::int32_t* history) {
  std::uint16_t* const marks = a.slots.marks + std::uint64_t{slot} * a.slots.vocabulary;
  for (std::uint32_t at = lanes.index(); at < a.slots.vocabulary; at += lanes.count())
    marks[at] = 0;
  lanes.sync();
  if (is_first(lanes))
    for (std::uint32_t at = 0; at < e.known(); ++at) {
      std::uint16_t& mark = marks[history[at]];
      mark = kernels::marked(mark, at < e.request.prompt);
    }
  lanes.sync();
}

/// Gives slots the new masks of their requests.
ATTACCA_HD void set_masks(const BlockLanes& lanes, const TurnArgs& a,
                          const schedule::Counts& counts) {
  for (std::uint32_t at = counts.placed + lanes.index(); at < counts.prepared;
       at += lanes.count()) {
    const auto slot = static_cast<std::uint32_t>(a.planned.prepared[at]);
    a.slots.params[slot].mask = a.loop->masks[a.loop->state.slots[slot].entry];
  }
}

/// Gives the slots of newly placed requests their sampling parameters and lists.
ATTACCA_HD void prepare_slots(const BlockLanes& lanes, const TurnArgs& a, std::uint32_t placed) {
  LoopState& loop = *a.loop;
  const State& state = loop.state;
  for (std::uint32_t at = 0; at < placed; ++at) {
    const auto slot = static_cast<std::uint32_t>(a.planned.prepared[at]);
    const std::uint32_t entry = state.slots[slot].entry;
    const schedule::Entry& e = state.entries[entry];
    const SamplingParams params = loop.params[entry];
    if (is_first(lanes)) {
      a.slots.params[slot] = params;
      a.slots.params[slot].mask = loop.masks[entry];
      // A preempted request finds its own pages again; those do not count.
      if (e.known() == e.request.prompt) loop.cached_tokens[entry] = e.computed - e.planned;
    }
    copy(lanes, a.slots.stop + std::uint64_t{slot} * SamplingParams::kMaxStopTokens,
         loop.stop + std::uint64_t{entry} * SamplingParams::kMaxStopTokens, params.stop_tokens);
    copy(lanes, a.slots.bias + std::uint64_t{slot} * SamplingParams::kMaxBiases,
         a.letters.bias + std::uint64_t{entry} * SamplingParams::kMaxBiases, params.biases);
    if (kernels::has_penalties(params)) mark_tokens(lanes, a, slot, e, state.history(entry));
  }
}

/// Pages that a lane copies alone.
constexpr std::uint32_t kFewPages = 4;

/// Copies what is new in block tables.
ATTACCA_HD void copy_changes(const BlockLanes& lanes, const TurnArgs& a, std::uint32_t changes) {
  const std::uint64_t stride = a.loop->state.limits.table_stride();
  for (std::uint32_t at = lanes.index(); at < changes; at += lanes.count()) {
    const schedule::TableChange change = a.planned.changes[at];
    const std::uint64_t first = change.slot * stride + change.first;
    for (std::uint32_t page = 0; page < change.count && page < kFewPages; ++page)
      a.running.tables[first + page] = a.planned.tables[first + page];
  }
  for (std::uint32_t at = 0; at < changes; ++at) {
    const schedule::TableChange change = a.planned.changes[at];
    if (change.count <= kFewPages) continue;
    const std::uint64_t first = change.slot * stride + change.first;
    copy(lanes, a.running.tables + first, a.planned.tables + first, change.count);
  }
}

/// The fields of Sampled before `tops`: 256 rows lie apart, and a load or store of each field would
/// be 256 of its own. nvcc lowers memcpy to loads of bytes.
struct alignas(16) Drawn {
  std::uint32_t words[4];
};
static_assert(offsetof(Sampled, tops) == sizeof(Drawn));

ATTACCA_HD void copy_drawn(void* to, const void* from) {
#if defined(__CUDA_ARCH__)
  *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#else
  std::memcpy(to, from, sizeof(Drawn));
#endif
}

/// Saves what the step has sampled, before another step writes there, and puts the planned step in
/// its place. A lane loads everything before it stores anything: a load behind a store would wait
/// for it, and each takes most of a microsecond.
ATTACCA_HD void exchange_rows(const BlockLanes& lanes, const TurnArgs& a,
                              const schedule::Counts& counts, std::uint32_t sampled) {
  const schedule::Plan& from = a.planned;
  const schedule::Plan& to = a.running;
  std::uint32_t most = counts.tokens > counts.rows ? counts.tokens : counts.rows;
  if (most < sampled) most = sampled;
  for (std::uint32_t at = lanes.index(); at < most; at += lanes.count()) {
    const bool is_token = at < counts.tokens, is_row = at < counts.rows, is_sampled = at < sampled;
    struct {
      std::int32_t token, token_from, position, slot;
    } token{};
    struct {
      std::int32_t gather, slot, position, forced;
    } row{};
    Drawn drawn{};
    std::uint32_t tops = 0;
    if (is_token)
      token = {from.tokens[at], from.token_from[at], from.positions[at], from.slots[at]};
    if (is_row)
      row = {from.gather[at], from.row_slots[at], from.row_positions[at], from.row_forced[at]};
    if (is_sampled) {
      copy_drawn(&drawn, a.sampled + at);
      tops = a.sampled[at].tops;
    }
    if (is_token) {
      to.tokens[at] = token.token;
      to.token_from[at] = token.token_from;
      to.positions[at] = token.position;
      to.slots[at] = token.slot;
    }
    if (is_row) {
      to.gather[at] = row.gather;
      to.row_slots[at] = row.slot;
      to.row_positions[at] = row.position;
      to.row_forced[at] = row.forced;
    }
    if (!is_sampled) continue;
    copy_drawn(a.saved + at, &drawn);
    a.saved[at].tops = tops;
    for (std::uint32_t top = 0; top < tops; ++top) {
      a.saved[at].top_token[top] = a.sampled[at].top_token[top];
      a.saved[at].top_logprob[top] = a.sampled[at].top_logprob[top];
    }
  }
}

/// Whether somebody could go on if it had a mask.
ATTACCA_HD bool waits_for_masks(const State& state) {
  for (std::uint32_t at = 0; at < state.running.count; ++at)
    if (!state.entries[state.running[at]].may_sample()) return true;
  const std::uint32_t first = state.waiting.first;
  return first != schedule::kNone && !state.entries[first].may_sample();
}

/// Whether the loop should end, and why. REQUIRES: the pass before had no step, or there was none.
ATTACCA_HD bool ends(const TurnArgs& a, LoopEnd& why) {
  const State& state = a.loop->state;
  if (a.loop->has_step) return false;
  if (a.loop->is_full || a.loop->is_paused) {
    why = a.loop->is_full ? LoopEnd::full : LoopEnd::paused;
    a.loop->is_paused = 0;
    return true;
  }
  if (RingReader<Order>(a.orders, a.loop->orders).available(1) > 0) return false;
  why = state.running.count + state.waiting.count == 0 ? LoopEnd::idle
        : waits_for_masks(state)                       ? LoopEnd::waits
                                                       : LoopEnd::stuck;
  return true;
}

ATTACCA_HD void end_loop(const TurnArgs& a, LoopEnd why) {
  Board& board = *a.board;
  if (why == LoopEnd::full)
    board.pauses.store(board.pauses.load(device::relaxed) + 1, device::relaxed);
  News end{};
  end.kind = News::Kind::ended;
  end.at = now();
  end.end = why;
  push_news(a.news, a.loop->news, end);
}

struct TurnKernel {
  static constexpr const char* name = "turn";
  static constexpr bool waits = true;
  using Args = TurnArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    const BlockLanes lanes(t);
    LoopState& loop = *a.loop;
    t.release_consumers();
    t.wait_for_producers();
    const std::uint64_t began = now();
    const bool has_run = loop.has_step;
    const schedule::Counts ran = *a.running.counts;
    const schedule::Counts counts = *a.planned.counts;
    lanes.sync();  // every thread has read them
    exchange_rows(lanes, a, counts, has_run ? ran.rows : 0);
    if (counts.changes > 0) copy_changes(lanes, a, counts.changes);
    if (counts.placed > 0) prepare_slots(lanes, a, counts.placed);
    if (counts.prepared > counts.placed) set_masks(lanes, a, counts);
    if (!is_first(lanes)) return;
    loop.has_sampled = has_run;
    loop.counts = ran;
    *a.running.counts = counts;
    loop.has_step = counts.tokens > 0;
    a.graph.set(counts.graph);
    LoopEnd why = LoopEnd::idle;
    loop.is_over = !has_run && ends(a, why);
    a.again.set(!loop.is_over);
    if (loop.is_over) end_loop(a, why);
    loop.turn_began = began;
    loop.turn_ended = now();
  }
};

}  // namespace

const Kernel<PlanArgs>& plan() {
  static const Kernel<PlanArgs> kernel = make_kernel<PlanKernel>();
  return kernel;
}
const Kernel<TurnArgs>& turn() {
  static const Kernel<TurnArgs> kernel = make_kernel<TurnKernel>();
  return kernel;
}
Grid grid_of(const PlanArgs&, bool is_cuda) {
  return Grid{Dim3{1}, Dim3{is_cuda ? kMostLanes : 1}};
}
Grid grid_of(const TurnArgs&, bool is_cuda) {
  return Grid{Dim3{1}, Dim3{is_cuda ? kMostLanes : 1}};
}

}  // namespace attacca::resident
