// job.hpp: a request inside the engine, from its submission to its end, and what a step made of it.
// Four threads meet here: the one that submits, the driver's, the mask worker's and the text
// worker's. Each field names its owner. While the driver's thread sleeps, one that submits may
// stand in for it.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "driver/slot_sampling.hpp"
#include "driver/step_clock.hpp"

namespace attacca::driver {

using Clock = StepClock::Clock;

/// Turns the tokens of one reply into text. engine/text_stream.hpp is the one that requests have.
class ReplyText {
 public:
  virtual ~ReplyText() = default;
  /// The text that is certain after one more token.
  virtual std::string push(std::int32_t token) = 0;
  /// The text that was held back. Call it after the last token.
  virtual std::string finish() = 0;
  /// Whether a stop string was found. No text comes after it.
  virtual bool is_stopped() const = 0;
  /// Whether a stop string may be found. Thread-safe.
  virtual bool may_stop() const = 0;
};

/// Which replies share a mask.
enum class MaskSharing : std::uint8_t {
  own,    // this reply alone, because of what it has written
  state,  // others too, if they have written the right things
  edge,   // every reply that takes the same token behind the same mask
};

/// Which tokens one reply may go on with. engine/grammars.hpp makes those that requests have.
class ReplyGrammar {
 public:
  virtual ~ReplyGrammar() = default;
  /// The mask of its next token. Throws Error if no token can come next.
  virtual MaskPtr allowed() = 0;
  /// Takes the next token.
  virtual void advance(std::int32_t token) = 0;
  /// Which replies share the mask that `allowed` returned last.
  virtual MaskSharing sharing() const { return MaskSharing::own; }
  /// Whether tokens of plain characters lead from that mask to the same one, in every reply that
  /// has it.
  virtual bool loops_on_plain() { return false; }
};

/// Where the events of a request go. The text worker calls it.
class Sink {
 public:
  virtual ~Sink() = default;
  /// `failure`: the error behind an event that says `failed`, if there was an exception. False: the
  /// receiver has had enough, and the request ends.
  virtual bool deliver(llm::RequestEvent event, std::exception_ptr failure) = 0;
};

/// The kinds of work. A scheduler may have room for one of them alone.
enum class Work : std::uint8_t { generation, embedding };
inline constexpr std::size_t kWorks = 2;

struct Room {
  bool for_generations = true;
  bool for_embeddings = true;

  bool has(Work work) const { return work == Work::generation ? for_generations : for_embeddings; }
};

struct Job;
using JobPtr = std::shared_ptr<Job>;

struct Job {
  Work work() const { return pooling == llm::Pooling::none ? Work::generation : Work::embedding; }

  // Constant after submission.
  std::uint64_t id = 0;
  std::vector<std::int32_t> prompt;
  std::size_t max_new = 0;
  bool is_score = false;
  llm::Pooling pooling = llm::Pooling::none;  // of an embedding
  bool wants_logprobs = false;
  SlotSampling sampling;  // but for the row of the mask, which is the driver's
  llm::Priority priority = llm::Priority::normal;
  std::optional<Clock::time_point> deadline;
  Clock::time_point submitted = Clock::now();
  std::shared_ptr<Sink> sink;

  // The driver's.
  enum class Place : std::uint8_t { submitted, in_line, scheduled, ended };
  Place place = Place::submitted;
  std::list<JobPtr>::iterator in_line;
  std::multimap<Clock::time_point, JobPtr>::iterator in_deadlines;
  static constexpr std::uint32_t kNoEntry = ~0u;
  std::uint32_t entry = kNoEntry;  // in the schedule, while it is scheduled
  bool awaits_mask = false;        // it may not sample before it gets one
  bool has_own_mask = false;       // no edge begins at it
  std::size_t cached_tokens = 0;
  // When it got a slot. It does not change after the first outcome, so the text worker may read it.
  std::optional<Clock::time_point> placed;
  std::vector<double> pooled;  // the sum of the hidden states so far

  // The mask worker's.
  std::unique_ptr<ReplyGrammar> grammar;  // null: any text
  std::string grammar_error;              // why it has no more masks

  // The text worker's.
  std::unique_ptr<ReplyText> text;  // null: a score, or a model that came without a tokenizer
  bool is_over = false;             // its last event was delivered
};

/// What a step, or the driver, made of a job: a token, the end, or both.
struct Outcome {
  JobPtr job;
  Clock::time_point at;
  std::int32_t token = -1;
  std::optional<llm::TokenLogprob> logprob = {};
  std::optional<llm::Finish> finish = {};  // `stop`: the token is a stop token
  std::string error = {};
  std::exception_ptr failure = {};
  std::size_t cached_tokens = 0;
  std::vector<float> embedding = {};
};

}  // namespace attacca::driver
