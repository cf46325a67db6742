// runner.hpp: answers prompts: streamed, batched or in a conversation. `attacca run` reads its
// options, starts an engine and leaves the rest to this.
#pragma once

#include <attacca/llm.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interrupt.hpp"
#include "llm/engine_flags.hpp"
#include "trace_choice.hpp"

namespace attacca::tool {

/// Options of sampling. The model's advice fills those that are not given.
struct SamplingFlags {
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::optional<std::uint64_t> seed;
};

// The defaults where neither the caller nor the model has a value.
inline constexpr float kTemperature = 0.7f;
inline constexpr float kTopP = 0.95f;

struct RunSettings {
  std::string model;
  std::string system;
  std::string prompts_file;
  TraceChoice trace;
  bool is_plain = false;
  bool is_json = false;
  bool has_stats = false;
  bool is_verbose = false;
  std::size_t max_tokens = 256;
  std::size_t samples = 1;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_tokens;
  bool ignores_end = false;
  llm::Grammar grammar;
  std::optional<unsigned> logprobs;
  SamplingFlags sampling;
  EngineFlags flags;
};

struct Prompt {
  std::string text;
  std::size_t line = 0;  // of the file of prompts; 0: none
};

/// While it lives, a signal does not end the program: answers end, and Interrupted is thrown.
class Runner {
 public:
  /// Throws UsageError where the model makes an option useless or impossible.
  Runner(const RunSettings& settings, const llm::Model& model, llm::Engine& engine);

  bool is_chat() const { return is_chat_; }

  /// Answers in the order of the prompts: streamed where there is one, else batched. A prompt that
  /// cannot be answered fails alone; false where one did.
  bool answer(const std::vector<Prompt>& prompts);

  /// Turns on a terminal until its end.
  void converse();

 private:
  /// Reads a line from the terminal. Returns false where its input has ended.
  bool read_line(std::string& line);
  llm::Request request_for(const std::string& prompt) const;
  void print(const Prompt& prompt, const llm::Request& request, const llm::Reply& reply) const;
  void say_failure(const std::string& place, const llm::Reply& reply) const;
  void print_stats(const std::vector<llm::Reply>& replies) const;

  const RunSettings& settings_;
  const llm::Model& model_;
  llm::Engine& engine_;
  llm::Sampling sampling_;
  bool is_chat_;
  CatchInterrupts interrupts_;
  std::string typed_;  // and not yet read as a line
};

}  // namespace attacca::tool
