// engine_core.hpp: the engine behind llm::Engine: it sizes and builds everything, checks requests,
// and gives them to the driver. The loop is in driver.hpp, the API in llm.hpp.
#pragma once

#include <atomic>
#include <attacca/llm.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "driver/driver.hpp"
#include "driver/inbox.hpp"
#include "driver/scheduler.hpp"
#include "driver/text_worker.hpp"
#include "driver/ticket_core.hpp"
#include "engine/grammars.hpp"
#include "engine/model_data.hpp"
#include "engine/products.hpp"
#include "engine/ranked.hpp"
#include "engine/sizing.hpp"
#include "engine/step_runner.hpp"

namespace attacca::llm::detail {

/// Thread-safe.
class EngineCore {
 public:
  EngineCore(std::shared_ptr<const ModelData> model, const EngineOptions& options,
             const Progress& progress);

  std::shared_ptr<TicketCore> submit(const Request& request);
  Reply generate(const Request& request);
  std::vector<Reply> generate(std::span<const Request> requests);
  std::vector<TokenLogprob> score(std::span<const std::int32_t> tokens);

  void wait_until_idle() const { inbox_->wait_until_quiet(); }

  const EngineOptions& options() const { return options_; }
  std::size_t longest_sequence() const { return engine::most_tokens(limits_); }
  const EngineMemory& memory() const { return memory_; }
  EngineStats stats() const { return driver_->stats(); }
  std::vector<GraphCoverage> coverage() const;
  std::string explain_loop() const;
  std::string explain_steps() const { return runner_->explain_steps(); }
  StepSizes sizes() const;
  void change_sizes(const StepSizes& sizes);
  std::vector<Product> products() const {
    return engine::products_of(runner_->weights(), options_.device, options_.same_bits);
  }
  std::vector<StepRecord> records(std::size_t most) const { return scheduler_->records(most); }
  std::vector<device::Record> device_records() const {
    return records_ ? records_->read() : std::vector<device::Record>();
  }

 private:
  driver::JobPtr job_of(const Request& request) const;
  driver::JobPtr embedding_job_of(const Request& request) const;
  const char* remedy_for_length() const;
  void add_grammar(driver::Job& job, const Request& request) const;
  driver::JobPtr score_job_of(std::span<const std::int32_t> tokens) const;
  /// Runs jobs to their ends, and calls their receivers in the caller's thread. Jobs whose
  /// receivers are done already are left out.
  void run(std::span<const driver::JobPtr> jobs, std::vector<driver::Receiver>& receivers);
  EngineMemory measure() const;
  void refuse_callback_thread() const;

  std::shared_ptr<const ModelData> model_;
  EngineOptions options_;
  engine::RankedModel part_;  // the whole model if there are no ranks
  schedule::Limits limits_;
  mutable std::mutex sizes_mutex_;  // of the sizes in `limits_`
  std::mutex change_mutex_;         // one change at a time
  mutable std::atomic<std::uint64_t> last_id_ = 0;
  mutable engine::Grammars grammars_{*model_};
  // In the order in which they need each other; the driver ends first.
  std::shared_ptr<driver::Inbox> inbox_ = std::make_shared<driver::Inbox>();
  std::optional<device::Records> records_;
  const engine::StepRunner* runner_ = nullptr;  // the scheduler's
  std::unique_ptr<driver::Scheduler> scheduler_;
  std::function<void(const schedule::Limits&)> offer_sizes_;     // to it
  std::function<std::string(const schedule::Limits&)> explain_;  // the resident loop
  EngineMemory memory_;
  std::unique_ptr<driver::TextWorker> text_;
  std::unique_ptr<driver::Driver> driver_;
};

}  // namespace attacca::llm::detail
