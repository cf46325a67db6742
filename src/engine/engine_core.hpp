// engine_core.hpp: the engine behind llm::Engine, driven by the host. It plans a step, launches its
// graph, plans and launches the next step behind it, commits the tokens of the first and hands out
// text. The policy is in schedule/, the device's side in step_runner.hpp, the API in llm.hpp.
#pragma once

#include <attacca/llm.hpp>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/model_data.hpp"
#include "engine/products.hpp"
#include "engine/sizing.hpp"
#include "engine/step_clock.hpp"
#include "engine/step_log.hpp"
#include "engine/step_runner.hpp"
#include "engine/text_stream.hpp"
#include "schedule/host.hpp"

namespace attacca::llm::detail {

/// Not thread-safe.
class EngineCore {
 public:
  EngineCore(std::shared_ptr<const ModelData> model, const EngineOptions& options,
             const Progress& progress);

  Reply generate(const Request& request);
  std::vector<Reply> generate(std::span<const Request> requests);
  std::vector<TokenLogprob> score(std::span<const std::int32_t> tokens);

  const EngineOptions& options() const { return options_; }
  std::size_t longest_sequence() const { return engine::most_tokens(limits_); }
  EngineMemory memory() const;
  EngineStats stats() const;
  std::vector<GraphCoverage> coverage() const;
  std::vector<Product> products() const {
    return engine::products_of(runner_->weights(), options_.device, options_.same_bits);
  }
  std::vector<StepRecord> records() const { return log_.records(); }

 private:
  using Clock = engine::StepClock::Clock;

  /// A request from its submission to its end.
  struct Job {
    std::vector<std::int32_t> prompt;
    std::size_t max_new = 0;
    bool is_score = false;
    engine::SlotSampling sampling;
    bool wants_logprobs = false;
    std::function<bool(std::string_view)> on_text;
    std::function<void(const Reply&)> on_done;
    std::unique_ptr<engine::TextStream> text;  // null: the model came without a tokenizer
    Reply reply;
    Clock::time_point submitted;
    bool is_done = false;
  };

  /// A step in flight.
  struct Launched {
    StepRecord record;
    Clock::time_point at;
  };

  Job job_of(const Request& request) const;
  void run(std::vector<Job>& jobs);
  void admit(std::vector<Job>& jobs);
  bool step();
  bool launch_next();
  void wait_for_oldest();
  StepRecord record_of(const schedule::Counts& counts) const;
  void prepare_placed_slots();
  void take_in(const schedule::Event& event);
  void fail(Job& job, const schedule::Event& event);
  void emit(Job& job, std::string text);
  void finish(Job& job, Finish finish);
  void drop(std::vector<Job>& jobs);

  std::shared_ptr<const ModelData> model_;
  EngineOptions options_;
  engine::StepLog log_;
  schedule::Limits limits_;
  std::unique_ptr<engine::StepRunner> runner_;
  std::vector<schedule::Line> state_memory_;
  schedule::State state_;
  std::vector<Job*> job_of_entry_;
  std::deque<Launched> launched_;              // the steps in flight, oldest first
  const kernels::Sampled* sampled_ = nullptr;  // by the step that is committed
  std::uint64_t next_id_ = 1;
  std::size_t next_job_ = 0;  // the first job not yet admitted
  engine::StepClock clock_;
};

}  // namespace attacca::llm::detail
