// host.cpp: checks limits, carves plans and states out of memory, and words refusals.
#include <attacca/error.hpp>

#include <fmt/core.h>

#include <bit>
#include <cstdint>

#include "schedule/host.hpp"
#include "schedule/requests.hpp"

namespace attacca::schedule {

namespace {

constexpr std::uint32_t kMostSlots = 4096;
constexpr std::uint32_t kMostRequests = 1u << 20;
constexpr std::uint32_t kMostTokens = 1u << 24;

void check_range(const char* name, std::uint32_t value, std::uint32_t least, std::uint32_t most) {
  if (value < least || value > most)
    throw BadArgument(fmt::format("{} = {}; use {} to {}", name, value, least, most));
}

/// No size may be larger than `limit`; messages call it `limit_name`.
void check_sizes(const char* name, const Sizes& sizes, const char* limit_name,
                 std::uint32_t limit) {
  if (sizes.count > Sizes::kMost)
    throw BadArgument(
        fmt::format("{} sizes in {}; give at most {}", sizes.count, name, Sizes::kMost));
  std::uint32_t last = 0;
  for (std::uint32_t at = 0; at < sizes.count; last = sizes.of[at++]) {
    if (sizes.of[at] <= last)
      throw BadArgument(fmt::format("{} has {} after {}; give them in ascending order, from 1 on",
                                    name, sizes.of[at], last));
    if (sizes.of[at] > limit)
      throw BadArgument(
          fmt::format("{} has {}, but no such step has more tokens than {} = {}; leave it out, or "
                      "use {} = {}",
                      name, sizes.of[at], limit_name, limit, limit_name, sizes.of[at]));
  }
}

/// Hands out aligned pieces of one block of memory, one after another. With no memory it only adds
/// up their sizes.
class Carver {
 public:
  explicit Carver(void* memory) : base_(reinterpret_cast<std::uintptr_t>(memory)) {}

  template <class T>
  T* take(std::uint64_t count) {
    T* const piece = reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return piece;
  }
  std::uint64_t used() const { return used_; }

 private:
  static constexpr std::uint64_t kAlignment = sizeof(Line);
  std::uintptr_t base_;
  std::uint64_t used_ = 0;
};

Plan carve_plan(const Limits& limits, Carver& carver) {
  Plan plan;
  plan.counts = carver.take<Counts>(1);
  plan.tokens = carver.take<std::int32_t>(limits.step_tokens);
  plan.token_from = carver.take<std::int32_t>(limits.step_tokens);
  plan.positions = carver.take<std::int32_t>(limits.step_tokens);
  plan.slots = carver.take<std::int32_t>(limits.step_tokens);
  plan.gather = carver.take<std::int32_t>(limits.logit_rows);
  plan.row_slots = carver.take<std::int32_t>(limits.logit_rows);
  plan.row_positions = carver.take<std::int32_t>(limits.logit_rows);
  plan.row_forced = carver.take<std::int32_t>(limits.logit_rows);
  plan.prepared = carver.take<std::int32_t>(limits.slots);
  plan.changes = carver.take<TableChange>(limits.slots);
  plan.tables = carver.take<std::int32_t>(std::uint64_t{limits.slots} * limits.table_stride());
  return plan;
}

State carve_state(const Limits& limits, Carver& carver) {
  State state;
  state.limits = limits;
  state.entries = carver.take<Entry>(limits.requests);
  state.histories = carver.take<std::int32_t>(std::uint64_t{limits.requests} * limits.max_context);
  state.slots = carver.take<Slot>(limits.slots);
  state.pages = carver.take<Page>(limits.pages);
  state.contents = carver.take<std::int32_t>(std::uint64_t{limits.pages} * limits.page_size);
  state.bucket_mask = std::bit_ceil(limits.pages) - 1;
  state.buckets = carver.take<std::uint32_t>(std::uint64_t{state.bucket_mask} + 1);
  state.parts = carver.take<Part>(std::uint64_t{kMostInFlight} * limits.slots);
  state.events = carver.take<Event>(limits.logit_rows);
  state.to_keep = carver.take<std::uint32_t>(limits.slots);
  state.free_entries.links = state.waiting.links = carver.take<Link>(limits.requests);
  state.idle_pages.links = carver.take<Link>(limits.pages);
  state.running.items = carver.take<std::uint32_t>(limits.slots);
  state.free_slots.items = carver.take<std::uint32_t>(limits.slots);
  state.free_pages.items = carver.take<std::uint32_t>(limits.pages);
  return state;
}

}  // namespace

void check(const Limits& limits) {
  check_range("slots", limits.slots, 1, kMostSlots);
  check_range("requests", limits.requests, limits.slots, kMostRequests);
  check_range("pages", limits.pages, 1, kMostPages);
  check_range("max_context", limits.max_context, 1, kMostTokens);
  check_range("prefill_chunk", limits.prefill_chunk, 1, kMostTokens);
  check_range("logit_rows", limits.logit_rows, limits.slots, kMostTokens);
  check_range("step_tokens", limits.step_tokens, limits.slots, kMostTokens);
  check_range("decode_step_tokens", limits.decode_step_tokens, limits.slots, limits.step_tokens);
  check_sizes("decode_sizes", limits.decode_sizes, "slots", limits.slots);
  check_sizes("mixed_sizes", limits.mixed_sizes, "step_tokens", limits.step_tokens);
  if (limits.page_size != 16 && limits.page_size != 32 && limits.page_size != 64)
    throw BadArgument(fmt::format("page_size = {}; use 16, 32 or 64", limits.page_size));
}

std::size_t plan_bytes(const Limits& limits) {
  Carver carver(nullptr);
  carve_plan(limits, carver);
  return carver.used();
}

std::size_t step_bytes(const Limits& limits) {
  return static_cast<std::size_t>(
      reinterpret_cast<std::uintptr_t>(bind_plan(limits, nullptr).tables));
}

std::size_t state_bytes(const Limits& limits) {
  Carver carver(nullptr);
  carve_state(limits, carver);
  return carver.used();
}

Plan bind_plan(const Limits& limits, void* memory) {
  Carver carver(memory);
  return carve_plan(limits, carver);
}

State bind_state(const Limits& limits, const Plan& plan, void* memory) {
  Carver carver(memory);
  State state = carve_state(limits, carver);
  state.plan = plan;
  return state;
}

State rebind(const State& state, const Plan& plan, void* memory) {
  const State bound = bind_state(state.limits, plan, memory);
  State moved = state;
  moved.plan = plan;
  moved.entries = bound.entries;
  moved.histories = bound.histories;
  moved.slots = bound.slots;
  moved.pages = bound.pages;
  moved.contents = bound.contents;
  moved.buckets = bound.buckets;
  moved.parts = bound.parts;
  moved.events = bound.events;
  moved.to_keep = bound.to_keep;
  moved.free_entries.links = bound.free_entries.links;
  moved.waiting.links = bound.waiting.links;
  moved.idle_pages.links = bound.idle_pages.links;
  moved.running.items = bound.running.items;
  moved.free_slots.items = bound.free_slots.items;
  moved.free_pages.items = bound.free_pages.items;
  return moved;
}

std::string why_refused(const Limits& limits, const Request& request) {
  const std::uint64_t most = std::uint64_t{request.prompt} + request.max_new;
  switch (judge(limits, request)) {
    case Admission::done:
      return "";
    case Admission::no_prompt:
      return "the prompt has no tokens; give it at least one";
    case Admission::over_context:
      return fmt::format(
          "{} prompt tokens and {} new ones are {}, over the context of {}; shorten the prompt, "
          "ask for fewer, or start the engine with a larger context",
          request.prompt, request.max_new, most, limits.max_context);
    case Admission::over_pages:
      return fmt::format(
          "{} prompt tokens and {} new ones are {}, over the {} that {} KV pages of {} hold; "
          "shorten the prompt, ask for fewer, or give the engine more memory",
          request.prompt, request.max_new, most, std::uint64_t{limits.pages} * limits.page_size,
          limits.pages, limits.page_size);
  }
  return "";
}

}  // namespace attacca::schedule
