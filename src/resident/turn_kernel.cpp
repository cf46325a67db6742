// turn_kernel.cpp: the body of `turn`, for a block of a GPU or one thread of the host.
#include <cstddef>
#include <cstring>

#include "kernels/sample/sampling.hpp"
#include "resident/loop_kernels.hpp"
#include "resident/loop_parts.hpp"
#include "schedule/lanes.hpp"

namespace attacca::resident {
namespace {

using device::RingReader;
using kernels::Sampled;
using kernels::SamplingParams;
using schedule::is_first;
using schedule::State;

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

const Kernel<TurnArgs>& turn() {
  static const Kernel<TurnArgs> kernel = make_kernel<TurnKernel>();
  return kernel;
}
Grid grid_of(const TurnArgs&, bool is_cuda) {
  return Grid{Dim3{1}, Dim3{is_cuda ? kMostLanes : 1}};
}

}  // namespace attacca::resident
