// world.hpp: helpers of the scheduling policy's tests: a schedule in host memory, a model whose
// next token is a hash of the whole prefix, and dice for random workloads.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "schedule/host.hpp"
#include "schedule/step.hpp"

namespace attacca::test {

/// Owns the memory of a state and its plan.
class Schedule {
 public:
  explicit Schedule(const schedule::Limits& limits)
      : plan_memory_(schedule::plan_bytes(limits) / sizeof(schedule::Line)),
        state_memory_(schedule::state_bytes(limits) / sizeof(schedule::Line)),
        state(bind_state(limits, bind_plan(limits, plan_memory_.data()), state_memory_.data())) {
    reset(state);
  }

  /// kNone if the request is refused or there is no free entry.
  std::uint32_t submit(const schedule::Request& request, std::span<const std::int32_t> prompt) {
    const std::uint32_t entry = schedule::reserve(state);
    if (entry == schedule::kNone) return entry;
    state.entries[entry].request = request;
    if (judge(state.limits, request) == schedule::Admission::done)
      std::copy(prompt.begin(), prompt.end(), state.history(entry));
    return admit(state, entry) == schedule::Admission::done ? entry : schedule::kNone;
  }

 private:
  std::vector<schedule::Line> plan_memory_;
  std::vector<schedule::Line> state_memory_;

 public:
  schedule::State state;
};

/// A sampler's result for a row.
struct Outcome {
  std::int32_t token;
  Ending ending;
};

/// A hash that stands for the keys and values of a position: of all tokens up to it, in order.
inline std::uint64_t extend(std::uint64_t prefix, std::int32_t token) {
  prefix = (prefix ^ (static_cast<std::uint64_t>(token) + 0x9e3779b97f4a7c15ull)) *
           0xbf58476d1ce4e5b9ull;
  return prefix ^ (prefix >> 29);
}

constexpr std::int32_t kVocabulary = 40;
constexpr std::int32_t kStopToken = 0;

inline std::int32_t next_token(std::uint64_t prefix) {
  return static_cast<std::int32_t>(extend(prefix, 77) % kVocabulary);
}

inline void require(bool is_true, const char* claim) {
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

}  // namespace attacca::test
