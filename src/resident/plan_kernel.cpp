// plan_kernel.cpp: the body of `plan`, for a block of a GPU or one thread of the host.
#include "resident/loop_kernels.hpp"

#include <attacca/llm.hpp>

#include "kernels/sample/sampling.hpp"
#include "resident/loop_parts.hpp"
#include "schedule/steady.hpp"

namespace attacca::resident {
namespace {

using device::RingReader;
using device::RingWriter;
using kernels::Sampled;
using kernels::SamplingParams;
using schedule::is_first;
using schedule::State;

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

/// The order that a launch was made for, and the letter to which it leads. The first plan asks for
/// both at once: what was there before the launch needs no acquire, and the entry is nearly always
/// the one that was freed last.
struct Arrival {
  static constexpr std::uint32_t kStops = SamplingParams::kMaxStopTokens;

  Order order;
  Letters::Letter letter;
  std::int32_t stop[kStops];
  std::int32_t prompt[kMostLanes];  // its first tokens
  std::uint32_t entry;              // of the letter; kNone: there is none
  std::uint32_t is_new;             // the order was not taken yet
};

ATTACCA_HD std::uint32_t least(std::uint32_t a, std::uint32_t b) { return a < b ? a : b; }

template <class T>
ATTACCA_HD const std::uint64_t* words_of(const T& item) {
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0 && alignof(T) == alignof(std::uint64_t));
  return reinterpret_cast<const std::uint64_t*>(&item);
}

/// Returns how many orders there were.
ATTACCA_HD std::uint64_t fetch_arrival(const BlockLanes& lanes, const PlanArgs& a,
                                       Arrival& arrival) {
  LoopState& loop = *a.loop;
  const std::uint32_t first = loop.state.free_entries.first;
  const std::uint64_t entry = first == schedule::kNone ? 0 : first;
  const std::uint32_t context = loop.state.limits.max_context;
  RingReader<Order> orders(a.orders, loop.orders);
  const std::uint64_t written = a.launch->orders;
  const Fetch order(lanes, words_of(orders.slot()), sizeof(Order) / sizeof(std::uint64_t));
  const Fetch letter(lanes, words_of(a.letters.letters[entry]),
                     sizeof(Letters::Letter) / sizeof(std::uint64_t));
  const Fetch stop(lanes, a.letters.stop + entry * Arrival::kStops, Arrival::kStops);
  const Fetch prompt(lanes, a.letters.prompts + entry * context, least(kMostLanes, context));
  order.put(lanes, reinterpret_cast<std::uint64_t*>(&arrival.order));
  letter.put(lanes, reinterpret_cast<std::uint64_t*>(&arrival.letter));
  stop.put(lanes, arrival.stop);
  prompt.put(lanes, arrival.prompt);
  if (is_first(lanes)) {
    arrival.is_new = loop.orders.own < written;
    arrival.entry = arrival.is_new ? first : schedule::kNone;
  }
  lanes.sync();
  if (is_first(lanes)) loop.orders.other = written;
  return written;
}

/// How many orders were ever written. In a pass this is a read across the bus on whose answer
/// nothing waits while the step before is settled; mostly it brings nothing new. Other lanes than
/// the first need not know.
ATTACCA_HD std::uint64_t look_for_orders(const BlockLanes& lanes, const PlanArgs& a,
                                         Arrival& arrival) {
  if (a.is_first) return fetch_arrival(lanes, a, arrival);
  if (!is_first(lanes)) return 0;
  arrival.is_new = 0;
  arrival.entry = schedule::kNone;
  return RingReader<Order>(a.orders, a.loop->orders).glance();
}

/// Takes the next of the first `written` orders, if there would be room for its answer too; else
/// `none`.
ATTACCA_HD void take_order(const PlanArgs& a, std::uint64_t written, Arrival& arrival) {
  LoopState& loop = *a.loop;
  loop.order.kind = Order::Kind::none;
  if (written == loop.orders.own) return;
  const std::uint32_t wanted = news_wanted(loop.state.limits);
  RingWriter<News> news(a.news, loop.news);
  RingReader<Order> orders(a.orders, loop.orders);
  const bool has_room = news.room(wanted) >= wanted;
  loop.news = news.place();
  if (!has_room) return;
  if (arrival.is_new) {
    loop.order = arrival.order;
    arrival.is_new = 0;
    orders.take();
  } else {
    orders.try_pop(loop.order);
    loop.orders_told = orders.place().own;
  }
  loop.orders = orders.place();
}

/// Tells the host which orders were taken. The first step of a launch does not wait for that: the
/// plan beside it does it.
ATTACCA_HD void tell_orders(const PlanArgs& a) {
  LoopState& loop = *a.loop;
  if (loop.orders_told == loop.orders.own || (a.is_first && loop.state.in_flight > 0)) return;
  RingReader<Order>(a.orders, loop.orders).tell();
  loop.orders_told = loop.orders.own;
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
/// another, and `turn` finds it in the device's own memory. Of the letter that has arrived nothing
/// is read again.
ATTACCA_HD void admit(const BlockLanes& lanes, const PlanArgs& a, const Order& order,
                      const Arrival& arrival) {
  State& state = a.loop->state;
  const std::uint32_t entry = order.entry;
  constexpr std::uint32_t kStops = SamplingParams::kMaxStopTokens;
  const bool is_here = entry == arrival.entry;
  const std::uint32_t here = is_here ? least(order.prompt, kMostLanes) : 0;
  const std::int32_t* const prompt =
      a.letters.prompts + static_cast<std::uint64_t>(entry) * state.limits.max_context;
  Letters::Letter letter;
  if (is_first(lanes)) letter = is_here ? arrival.letter : a.letters.letters[entry];
  copy(lanes, state.history(entry), arrival.prompt, here);
  copy(lanes, state.history(entry) + here, prompt + here, order.prompt - here);
  copy(lanes, a.loop->stop + std::uint64_t{entry} * kStops,
       is_here ? arrival.stop : a.letters.stop + std::uint64_t{entry} * kStops, kStops);
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
ATTACCA_HD void take_in_orders(const BlockLanes& lanes, const PlanArgs& a, std::uint64_t written,
                               Arrival& arrival) {
  LoopState& loop = *a.loop;
  for (;;) {
    if (is_first(lanes)) take_order(a, written, arrival);
    lanes.sync();
    const Order order = loop.order;
    switch (order.kind) {
      case Order::Kind::none:
        return;
      case Order::Kind::admit:
        admit(lanes, a, order, arrival);
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

ATTACCA_HD void plan_next(const BlockLanes& lanes, const PlanArgs& a, std::uint64_t written,
                          Arrival& arrival) {
  LoopState& loop = *a.loop;
  take_in_orders(lanes, a, written, arrival);
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
    if (a.rehearses && !a.rehearses->is_over) return;
    const State& state = loop.state;
    prefetch(lanes, state.entries, state.limits.requests);
    prefetch(lanes, state.slots, state.limits.slots);
    prefetch(lanes, state.running.items, state.running.count);
    prefetch(lanes, loop.cached_tokens, state.limits.requests);
#if defined(__CUDA_ARCH__)
    __shared__ std::uint64_t memory[sizeof(Arrival) / sizeof(std::uint64_t)];
    Arrival& arrival = *reinterpret_cast<Arrival*>(memory);
#else
    Arrival arrival;
#endif
    const std::uint64_t written = look_for_orders(lanes, a, arrival);
    const bool is_steady = loop.has_sampled && pass_steadily(lanes, a, written);
    if (loop.has_sampled && !is_steady) commit(lanes, a);
    const std::uint64_t committed = now();
    lanes.sync();
    if (!is_steady) plan_next(lanes, a, written, arrival);
    if (is_first(lanes)) tell_orders(a);
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

}  // namespace

const Kernel<PlanArgs>& plan() {
  static const Kernel<PlanArgs> kernel = make_kernel<PlanKernel>();
  return kernel;
}
Grid grid_of(const PlanArgs&, bool is_cuda) {
  return Grid{Dim3{1}, Dim3{is_cuda ? kMostLanes : 1}};
}

}  // namespace attacca::resident
