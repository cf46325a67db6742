// workload.hpp: random limits of a schedule, and requests with the tokens and events that must
// follow, for simulation_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/world.hpp"

namespace attacca::test {

using namespace schedule;

/// The test's view of a request: its prompt, and the tokens and events that must follow.
struct Tracked {
  Request request;
  std::uint32_t entry = kNone;
  std::vector<std::int32_t> tokens;     // prompt and answer, computed alone
  std::vector<std::uint64_t> prefixes;  // of each position
  bool stops = false;                   // it ends with the stop token
  bool asks = false;                    // each token needs a permission
  bool is_followed = false;             // it runs ahead, and is held now and then
  std::uint32_t next_event = 0;         // position of the next event
  std::uint32_t next_row = 0;           // position whose logits are planned next
  std::uint32_t row_before = 0;         // next_row before the newest plan
  std::uint32_t next_write = 0;         // next position to write, since it got its slot
  std::uint64_t deadline = 0;           // the step by which it must have ended

  std::uint32_t known() const { return std::max(next_event, request.prompt); }
  /// Its tokens before the newest plan, with one in flight.
  std::uint32_t length() const { return std::max(row_before + 1, request.prompt); }
  std::uint32_t row_end() const { return request.prompt + std::max(request.max_new, 1u) - 1; }
  bool was_spent() const { return row_before == row_end(); }
  /// Forgets what is in flight, after a preemption.
  void starts_over() {
    next_row = row_before = next_event - 1;
    next_write = 0;
  }
};

/// A request with the answer it gets alone.
inline Tracked alone(const Request& request, std::vector<std::int32_t> prompt) {
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
  t.starts_over();
  return t;
}

inline Limits random_limits(Dice& dice) {
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
  limits.decode_step_tokens =
      dice.one_in(3) ? limits.step_tokens : dice.from(limits.slots, limits.step_tokens);
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

}  // namespace attacca::test
