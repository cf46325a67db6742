// loop_kernels.cpp: the bodies of the loop's kernels, for a block of a GPU or one thread of the
// host.
#include "resident/loop_kernels.hpp"

#include "kernels/sample/sampling.hpp"
#include "schedule/step.hpp"

namespace attacca::resident {
namespace {

using device::RingReader;
using device::RingWriter;
using kernels::Sampled;
using kernels::SamplingParams;
using schedule::State;

/// Waits for the other threads of the block; the host has one.
ATTACCA_HD void sync() {
#if defined(__CUDA_ARCH__)
  __syncthreads();
#endif
}

/// All threads of the block copy.
template <class T>
ATTACCA_HD void copy(const Thread& t, T* to, const T* from, std::uint32_t count) {
  for (std::uint32_t at = t.thread.x; at < count; at += t.threads.x) to[at] = from[at];
}

ATTACCA_HD std::uint64_t now() { return device::NativeMemory::now(); }

// --- plan --------------------------------------------------------------------------------------

/// Takes the next order, if there would be room for its answer too; else `none`.
ATTACCA_HD void take_order(const PlanArgs& a, RingReader<Order>& orders, RingWriter<News>& news) {
  LoopState& loop = *a.loop;
  loop.order.kind = Order::Kind::none;
  const std::uint32_t wanted = news_wanted(loop.state.limits);
  if (news.room(wanted) >= wanted) orders.try_pop(loop.order);
}

ATTACCA_HD void cancel(State& state, const Order& order, RingWriter<News>& news) {
  schedule::cancel(state, order.entry, order.id);
  News answer{};
  answer.kind = News::Kind::cancelled;
  answer.entry = order.entry;
  answer.id = order.id;
  answer.at = now();
  news.try_push(answer);
}

ATTACCA_HD void take_in_orders(const Thread& t, const PlanArgs& a) {
  LoopState& loop = *a.loop;
  State& state = loop.state;
  RingReader<Order> orders(a.orders);
  RingWriter<News> news(a.news);
  for (;;) {
    if (t.is_first()) take_order(a, orders, news);
    sync();
    const Order order = loop.order;
    if (order.kind == Order::Kind::none) return;
    if (order.kind == Order::Kind::admit) {
      const Letters::Letter& letter = a.letters.letters[order.entry];
      copy(t, state.history(order.entry),
           a.letters.prompts + static_cast<std::uint64_t>(order.entry) * state.limits.max_context,
           letter.request.prompt);
      if (t.is_first()) {
        schedule::reserve(state, order.entry);
        state.entries[order.entry].request = letter.request;
        schedule::admit(state, order.entry);  // the host asked `judge` before
      }
    } else if (t.is_first()) {
      cancel(state, order, news);
    }
    sync();
  }
}

/// Whether every row of another step could be published.
ATTACCA_HD bool has_room(const PlanArgs& a) {
  const schedule::Limits& limits = a.loop->state.limits;
  return RingWriter<News>(a.news).room(news_wanted(limits)) >= news_wanted(limits) &&
         RingWriter<Sampled>(a.tops).room(2 * limits.logit_rows) >= 2 * limits.logit_rows;
}

struct PlanKernel {
  static constexpr const char* name = "plan";
  using Args = PlanArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    LoopState& loop = *a.loop;
    if (loop.is_over) return;
    take_in_orders(t, a);
    if (!t.is_first()) return;
    loop.is_full = !has_room(a);
    if (loop.is_full)
      *loop.state.plan.counts = {};
    else
      schedule::plan_step(loop.state);
  }
};

// --- turn --------------------------------------------------------------------------------------

/// Rebuilds what a slot's penalties know of the tokens of its history.
ATTACCA_HD void mark_tokens(const Thread& t, const TurnArgs& a, std::uint32_t slot,
                            const schedule::Entry& e, const std::int32_t* history) {
  std::uint16_t* const marks = a.slots.marks + std::uint64_t{slot} * a.slots.vocabulary;
  for (std::uint32_t at = t.thread.x; at < a.slots.vocabulary; at += t.threads.x) marks[at] = 0;
  sync();
  if (t.is_first())
    for (std::uint32_t at = 0; at < e.known(); ++at) {
      std::uint16_t& mark = marks[history[at]];
      mark = kernels::marked(mark, at < e.request.prompt);
    }
  sync();
}

/// Gives the slots of newly placed requests their sampling parameters and lists.
ATTACCA_HD void prepare_slots(const Thread& t, const TurnArgs& a) {
  LoopState& loop = *a.loop;
  const State& state = loop.state;
  const std::uint32_t words = kernels::mask_words(a.slots.vocabulary);
  for (std::uint32_t at = 0; at < state.plan.counts->placed; ++at) {
    const auto slot = static_cast<std::uint32_t>(state.plan.placed[at]);
    const std::uint32_t entry = state.slots[slot].entry;
    const schedule::Entry& e = state.entries[entry];
    const SamplingParams params = a.letters.letters[entry].params;
    if (t.is_first()) {
      a.slots.params[slot] = params;
      // A preempted request finds its own pages again; those do not count.
      if (e.known() == e.request.prompt) loop.cached_tokens[entry] = e.computed - e.planned;
    }
    copy(t, a.slots.stop + std::uint64_t{slot} * SamplingParams::kMaxStopTokens,
         a.letters.stop + std::uint64_t{entry} * SamplingParams::kMaxStopTokens,
         params.stop_tokens);
    copy(t, a.slots.bias + std::uint64_t{slot} * SamplingParams::kMaxBiases,
         a.letters.bias + std::uint64_t{entry} * SamplingParams::kMaxBiases, params.biases);
    if (params.is_masked)
      copy(t, a.slots.allowed + std::uint64_t{slot} * words,
           a.letters.allowed + std::uint64_t{entry} * words, words);
    if (kernels::has_penalties(params)) mark_tokens(t, a, slot, e, state.history(entry));
  }
}

ATTACCA_HD News row_news(const TurnArgs& a, const schedule::Event& event) {
  const Sampled& sampled = a.sampled[event.row];
  News news{};
  news.kind = News::Kind::row;
  news.entry = event.entry;
  news.id = event.id;
  news.at = now();
  news.row = {event.position,  event.token,
              event.ending,    a.loop->cached_tokens[event.entry],
              sampled.logprob, event.token >= 0 && sampled.tops > 0};
  return news;
}

ATTACCA_HD void publish_step(const TurnArgs& a) {
  const State& state = a.loop->state;
  RingWriter<News> news(a.news);
  RingWriter<Sampled> tops(a.tops);
  for (std::uint32_t at = 0; at < state.event_count; ++at) {
    const News row = row_news(a, state.events[at]);
    if (row.row.has_tops) tops.try_push(a.sampled[state.events[at].row]);
    news.try_push(row);
  }
  News step{};
  step.kind = News::Kind::step;
  step.at = now();
  step.step = *a.loop->running.counts;
  news.try_push(step);
}

ATTACCA_HD void write_board(const TurnArgs& a, bool is_paused) {
  using device::relaxed;
  const State& state = a.loop->state;
  const schedule::Statistics& s = state.statistics;
  Board& board = *a.board;
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
  if (is_paused) board.pauses.store(board.pauses.load(relaxed) + 1, relaxed);
}

/// The planned step takes the place of the one that has run.
ATTACCA_HD void promote(const Thread& t, const TurnArgs& a) {
  LoopState& loop = *a.loop;
  const schedule::Plan& from = loop.state.plan;
  const schedule::Plan& to = loop.running;
  const schedule::Counts counts = *from.counts;
  copy(t, to.tokens, from.tokens, counts.tokens);
  copy(t, to.token_from, from.token_from, counts.tokens);
  copy(t, to.positions, from.positions, counts.tokens);
  copy(t, to.slots, from.slots, counts.tokens);
  copy(t, to.gather, from.gather, counts.rows);
  copy(t, to.row_slots, from.row_slots, counts.rows);
  copy(t, to.row_positions, from.row_positions, counts.rows);
  copy(t, to.row_forced, from.row_forced, counts.rows);
  for (std::uint32_t at = 0; at < counts.changes; ++at) {
    const schedule::TableChange change = from.changes[at];
    const std::uint64_t first =
        std::uint64_t{change.slot} * loop.state.limits.table_stride() + change.first;
    copy(t, to.tables + first, from.tables + first, change.count);
  }
  prepare_slots(t, a);
  if (!t.is_first()) return;
  *to.counts = counts;
  loop.has_step = counts.tokens > 0;
  a.graph.set(loop.has_step ? counts.graph : loop.state.limits.graph_count());
}

/// Whether the loop should end, and why. REQUIRES: the pass before had no step, but a plan.
ATTACCA_HD bool ends(const TurnArgs& a, LoopEnd& why) {
  const State& state = a.loop->state;
  if (a.loop->has_step) return false;
  if (a.loop->is_full) {
    why = LoopEnd::full;
    return true;
  }
  if (RingReader<Order>(a.orders).available(1) > 0) return false;
  why = state.running.count + state.waiting.count > 0 ? LoopEnd::stuck : LoopEnd::idle;
  return true;
}

ATTACCA_HD void end_or_go_on(const TurnArgs& a, bool may_end) {
  LoopEnd why = LoopEnd::idle;
  const bool is_over = may_end && ends(a, why);
  a.loop->is_over = is_over;
  a.again.set(!is_over);
  write_board(a, is_over && why == LoopEnd::full);
  if (!is_over) return;
  News end{};
  end.kind = News::Kind::ended;
  end.at = now();
  end.end = why;
  RingWriter<News>(a.news).try_push(end);
}

struct TurnKernel {
  static constexpr const char* name = "turn";
  using Args = TurnArgs;
  static Cost cost(const Args&) { return {.flops = 0, .bytes = 0}; }
  ATTACCA_HD static void body(Thread& t, const Args& a) {
    LoopState& loop = *a.loop;
    const bool has_run = loop.has_step;
    const bool is_first_pass = loop.is_over;
    sync();  // every thread has read them
    if (has_run && t.is_first()) {
      schedule::commit_step(loop.state, a.sampled);
      publish_step(a);
    }
    sync();
    promote(t, a);
    if (t.is_first()) end_or_go_on(a, !is_first_pass && !has_run);
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
Grid grid_of(const PlanArgs&, bool is_cuda) { return Grid{Dim3{1}, Dim3{is_cuda ? 256u : 1u}}; }
Grid grid_of(const TurnArgs&, bool is_cuda) { return Grid{Dim3{1}, Dim3{is_cuda ? 256u : 1u}}; }

}  // namespace attacca::resident
