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
/// should end; the loop answers with `cancelled`, whether or not it has ended before. `permit`: the
/// request has a mask for its next token, or for all. `forget`: the edges between masks are void;
/// the loop answers with `forgotten`. `pause`: another engine wants the device.
struct Order {
  enum class Kind : std::uint32_t { none, admit, cancel, permit, forget, pause };

  Kind kind;
  std::uint32_t entry = 0;
  std::uint64_t id = 0;
  std::uint32_t prompt = 0;  // tokens, as in the letter; of `admit`
  // What `permit` says:
  std::uint32_t mask = 0;    // the row with the request's mask
  std::uint32_t is_new = 0;  // the row is to be filled with the mask in the request's letter
  std::uint32_t many = 0;    // the mask is for all tokens that follow
  std::uint32_t loops = 0;   // an edge of all plain tokens leads from the row to itself
  std::uint32_t from = kernels::MaskEdges::kNone;  // an edge leads from this row to the mask
  std::int32_t token = 0;                          // of the edge
};

/// Why the loop ended. `full`: there was no room for the news of another step. `waits`: all
/// requests wait for masks. `paused`: as was ordered.
enum class LoopEnd : std::uint32_t { idle, full, stuck, waits, paused };

/// From the loop, in order: each row of a step, then the step.
struct News {
  enum class Kind : std::uint32_t { row, step, cancelled, forgotten, ended };

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
      std::uint32_t mask;  // see Sampled
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
    kernels::SamplingParams params;  // but for the mask
    bool is_masked = false;          // it waits for a `permit`
  };

  Letter* letters = nullptr;           // [requests]
  std::int32_t* prompts = nullptr;     // [requests, max_context]
  std::int32_t* stop = nullptr;        // [requests, kMaxStopTokens]
  kernels::TokenBias* bias = nullptr;  // [requests, kMaxBiases]
  std::uint32_t* masks = nullptr;      // [requests, mask_words]: those on their way to a row
};

/// What the host tells a launch of the loop, before it makes it.
struct Launch {
  std::uint64_t orders = 0;  // how many were ever written
};

/// The policy's numbers after the last step, which the host may read at any time.
struct Board {
  using Word = device::Atomic<std::uint64_t, device::Scope::system>;

  Word steps, ahead, voided, prefilled, decoded, padding, shared, evictions, preemptions;
  Word running, waiting, pages_in_use, pages_cached;
  Word pauses;  // steps that were put off because the ring of news was full
};

}  // namespace attacca::resident
