// policy.hpp: what the tests of single rules of the scheduling policy share: small limits, and a
// fixture that submits requests and takes steps one by one.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "schedule/world.hpp"

namespace attacca::test {

using namespace schedule;

using Tokens = std::vector<std::int32_t>;

inline Limits small_limits() {
  Limits limits;
  limits.slots = 4;
  limits.requests = 8;
  limits.pages = 16;
  limits.page_size = 4;
  limits.max_context = 32;
  limits.prefill_chunk = 8;
  limits.logit_rows = 8;
  limits.step_tokens = 16;
  limits.decode_step_tokens = 16;
  limits.decode_sizes = {2, {1, 3}};
  limits.mixed_sizes = {3, {2, 4, 16}};
  return limits;
}

inline Tokens counting(std::int32_t first, std::uint32_t count) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class SchedulePolicy : public testing::Test {
 protected:
  void use(const Limits& limits) { schedule_.emplace(limits); }
  State& state() { return schedule_->state; }
  const Plan& plan() { return state().plan; }
  const Counts& counts() { return *plan().counts; }

  /// Gives requests the ids 1, 2, 3, …
  std::uint32_t submit(const Tokens& prompt, std::uint32_t max_new, bool wants_all_logits = false) {
    return schedule_->submit(
        {++last_id_, static_cast<std::uint32_t>(prompt.size()), max_new, wants_all_logits}, prompt);
  }
  /// Commits the planned step as if each row had sampled `token`.
  std::vector<Event> commit(std::int32_t token = 100, Ending ending = Ending::none) {
    const std::vector<Outcome> outcomes(counts().rows, {token, ending});
    commit_step(state(), outcomes.data());
    return {state().events, state().events + state().event_count};
  }
  std::vector<Event> step() {
    plan_step(state());
    return commit();
  }
  void finish_all() {
    while (state().running.count + state().waiting.count > 0) step();
  }

  template <class T>
  static Tokens first(const T* values, std::uint32_t count) {
    return {values, values + count};
  }
  Tokens planned_tokens() { return first(plan().tokens, counts().tokens); }
  Tokens planned_positions() { return first(plan().positions, counts().tokens); }
  /// Tokens of a request in the newest step.
  std::uint32_t planned(std::uint32_t entry) { return state().entries[entry].planned; }
  Tokens table(std::uint32_t entry) {
    const std::uint32_t slot = state().entries[entry].slot;
    return first(state().table(slot), state().slots[slot].pages);
  }

 private:
  std::optional<Schedule> schedule_{small_limits()};
  std::uint64_t last_id_ = 0;
};

}  // namespace attacca::test
