// resident_scheduler.hpp: the host's side of the scheduler that lives on the device. The loop of
// resident/ plans, runs and commits steps by itself. Here requests are written into letters, orders
// and news cross in rings, and the loop is launched when it has ended and there is something to do.
#pragma once

#include <atomic>
#include <attacca/device/ring.hpp>
#include <attacca/llm.hpp>
#include <attacca/switch_loop.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver/scheduler.hpp"
#include "driver/step_turns.hpp"
#include "engine/embedder.hpp"
#include "engine/reply_masks.hpp"
#include "engine/resident_ranks.hpp"
#include "engine/step_log.hpp"
#include "engine/step_runner.hpp"
#include "resident/loop_kernels.hpp"
#include "schedule/host.hpp"

namespace attacca::engine {

struct ResidentMail;

class ResidentScheduler final : public driver::Scheduler {
 public:
  /// Throws BadArgument if some step has no graph. REQUIRES: as HostScheduler.
  /// `news_capacity` is how much the ring of news holds. 0 stands for thousands of steps, so that a
  /// host that pauses for a second or two does not stop the loop.
  ResidentScheduler(std::unique_ptr<StepRunner> runner, const schedule::Limits& limits,
                    const llm::EngineOptions& options, const device::RecordsRef& records = {},
                    const formats::Progress& progress = {}, std::uint32_t news_capacity = 0);
  ~ResidentScheduler() override;

  /// Builds a loop for the step sizes of these limits, while the present one runs. It takes
  /// over when that one ends, which it is asked to do. Throws as the constructor. Thread-safe, for
  /// one caller at a time.
  void offer(const schedule::Limits& limits);
  /// What a pass of the loop costs in each form on this device, or why it cannot have that form.
  /// Thread-safe.
  std::string explain(const schedule::Limits& limits);

  /// As many as there are entries: some wait on the device, so that a slot is not left free until
  /// the host has heard of it. A few embeddings may wait beside them, and neither kind takes the
  /// room of the other.
  driver::Room room() const override {
    return {.for_generations = !free_entries_.empty(), .for_embeddings = embedder_.has_room()};
  }
  void admit(driver::JobPtr job) override;
  void remove(driver::Job& job) override;
  bool can_begin() const override { return true; }
  std::chrono::nanoseconds polls() const override;
  void begin() override;
  bool step(std::vector<driver::Outcome>& outcomes) override;
  bool is_idle() const override { return !is_running_ && live_ == 0 && embedder_.is_idle(); }
  /// All jobs of the loop, which knows no longer what was whose. Starts with an empty schedule
  /// again.
  std::vector<driver::JobPtr> fail_running() override;
  std::vector<driver::JobPtr> remove_all() override { return embedder_.remove_all(); }
  void flush() override { log_.flush(); }

  llm::EngineStats stats() const override;
  std::vector<llm::StepRecord> records(std::size_t most) const override {
    return log_.records(most);
  }
  bool is_usable() noexcept override { return runner_->is_usable(); }
  std::size_t bytes() const override;
  GraphBytes graph_bytes() const override;
  driver::StepClock::Running running() override { return driver::StepClock::Running(clock_); }

 private:
  void start(const formats::Progress& progress = {});
  SwitchLoop passes(const ResidentMail& mail, const schedule::Limits& limits,
                    const formats::Progress& progress) const;
  std::unique_ptr<SwitchLoopExec> build_loop(const ResidentMail& mail,
                                             const schedule::Limits& limits,
                                             const formats::Progress& progress = {}) const;
  void take_offered_loop();
  void launch();
  void embed(std::vector<driver::Outcome>& outcomes);
  void order(const resident::Order& order);
  bool has_unread_orders();
  bool is_eager(driver::Clock::time_point began, driver::Clock::time_point now) const;
  void poll() const;
  void pause_if_wanted(driver::Clock::time_point now);
  void take_in_masks(std::vector<driver::Outcome>& outcomes);
  void permit(const ReplyMasks::Grant& grant);
  bool take_in_news(std::vector<driver::Outcome>& outcomes);
  bool may_stop(std::uint32_t entry) const;
  void take_in_row(const resident::News& news, std::vector<driver::Outcome>& outcomes);
  void take_in_step(const resident::News& news);
  void end_loop(resident::LoopEnd why);
  void look_for_failure();
  void check_results();
  void end_and_throw();
  bool is_broken() const noexcept { return post_ && post_->is_broken(); }
  void synchronize();
  void release(std::uint32_t entry);
  void stop() noexcept;
  llm::EngineStats loop_stats() const;

  schedule::Limits limits_;
  llm::EngineOptions options_;
  device::RecordsRef records_;
  std::uint32_t news_capacity_;
  StepLog log_;
  std::size_t graph_device_bytes_ = 0;
  std::unique_ptr<StepRunner> runner_;
  std::optional<PlanPost> post_;  // to the other ranks, if there are any
  Stream stream_;
  Event ended_;
  Buffer<resident::Letters::Letter> letters_;
  Buffer<std::int32_t> prompts_;
  Buffer<std::int32_t> stop_;
  Buffer<kernels::TokenBias> bias_;
  Buffer<std::uint32_t> masks_sent_;  // by entry
  std::shared_ptr<ResidentMail> mail_;
  struct Occupant {
    std::uint64_t id = 0;  // 0: the entry is free
    driver::JobPtr job;
    bool is_removed = false;  // and the loop has not heard of it yet
  };
  std::vector<Occupant> occupants_;  // by entry
  std::vector<std::uint32_t> free_entries_;
  std::uint32_t live_ = 0;                           // entries that are not free
  bool is_running_ = false;                          // the loop, as far as its news were read
  resident::LoopEnd end_ = resident::LoopEnd::idle;  // why it ended last
  bool has_ordered_pause_ = false;                   // since it was launched
  bool has_ordered_forget_ = false;                  // and it has not answered
  std::uint64_t launches_ = 0;
  std::uint64_t steps_late_ = 0;
  llm::EngineStats past_;  // what the boards of loops that failed had counted
  driver::Clock::time_point launched_;
  driver::Clock::time_point last_step_;  // when its news were read
  driver::Clock::time_point last_look_;  // for failures
  std::uint64_t last_step_at_ = 0;       // by the device's clock; 0: none since the launch
  driver::StepClock clock_;
  driver::StepTurn turn_;  // held while the loop runs
  ReplyMasks masks_;
  Embedder embedder_;  // its steps run between two launches of the loop
  struct Offer {
    schedule::Limits limits;
    std::shared_ptr<ResidentMail> mail;  // that of the loop
    std::unique_ptr<SwitchLoopExec> loop;
  };
  std::mutex offer_mutex_;  // of `offered_`, and of `mail_` where it changes
  Offer offered_;
  std::atomic<bool> has_offer_ = false;
};

}  // namespace attacca::engine
