// mail.hpp: what the host and the loop on the device tell each other. Orders and news cross in
// rings, in memory that both sides see; a request itself lies in the letter of its entry until the
// request has ended.
#pragma once

#include <attacca/device/ring.hpp>

#include "core/ending.hpp"
#include "kernels/sample/sample.hpp"
#include "schedule/state.hpp"

namespace attacca::resident {

/// From the host. `admit`: the letter of this entry is written. `cancel`: the request with this id
/// should end; the loop answers with `cancelled`, whether or not it has ended before.
struct Order {
  enum class Kind : std::uint32_t { none, admit, cancel };

  Kind kind;
  std::uint32_t entry;
  std::uint64_t id;
};

/// Why the loop ended. `full`: there was no room for the news of another step.
enum class LoopEnd : std::uint32_t { idle, full, stuck };

/// From the loop, in order: each row of a step, then the step.
struct News {
  enum class Kind : std::uint32_t { row, step, cancelled, ended };

  Kind kind;
  std::uint32_t entry;  // row, cancelled
  std::uint64_t id;     // row, cancelled
  std::uint64_t at;     // nanoseconds of the device's clock
  union {
    struct {
      std::uint32_t position;
      std::int32_t token;
      Ending ending;
      std::uint32_t cached_tokens;
      float logprob;
      std::uint32_t has_tops;  // the ring of tops has the row's alternatives next
    } row;
    schedule::Counts step;
    LoopEnd end;
  };
};

/// Requests, by entry.
struct Letters {
  struct Letter {
    schedule::Request request;
    kernels::SamplingParams params;
  };

  Letter* letters = nullptr;           // [requests]
  std::int32_t* prompts = nullptr;     // [requests, max_context]
  std::int32_t* stop = nullptr;        // [requests, kMaxStopTokens]
  kernels::TokenBias* bias = nullptr;  // [requests, kMaxBiases]
  std::uint32_t* allowed = nullptr;    // [requests, mask_words]
};

/// The policy's numbers after the last step, which the host may read at any time.
struct Board {
  using Word = device::Atomic<std::uint64_t, device::Scope::system>;

  Word steps, ahead, voided, prefilled, decoded, padding, shared, evictions, preemptions;
  Word running, waiting, pages_in_use, pages_cached;
  Word pauses;  // steps that were put off because the ring of news was full
};

}  // namespace attacca::resident
