// step_turns.hpp: engines that share a device take turns, in the order in which they asked. Whoever
// has the turn may have steps in flight.
#pragma once

#include <attacca/llm.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace attacca::llm {

/// A lock whose waiters are served in order. Thread-safe.
class StepTurns {
 public:
  void take() {
    std::unique_lock lock(mutex_);
    const std::uint64_t mine = asked_++;
    given_back_.wait(lock, [&] { return served_ == mine; });
  }
  /// False: somebody has it.
  bool try_take() {
    const std::lock_guard lock(mutex_);
    if (served_ != asked_) return false;
    ++asked_;
    return true;
  }
  void give_back() {
    {
      const std::lock_guard lock(mutex_);
      ++served_;
    }
    given_back_.notify_all();
  }
  /// How many wait. REQUIRES: the caller has the turn.
  std::uint64_t waiting() const {
    const std::lock_guard lock(mutex_);
    return asked_ - served_ - 1;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable given_back_;
  std::uint64_t asked_ = 0;
  std::uint64_t served_ = 0;  // turns given back; also the number of whoever has the turn
};

}  // namespace attacca::llm

namespace attacca::driver {

/// One engine's turn. Without StepTurns it is always its turn. Not thread-safe.
class StepTurn {
 public:
  explicit StepTurn(std::shared_ptr<llm::StepTurns> turns) : turns_(std::move(turns)) {}
  ~StepTurn() { give_back(); }
  StepTurn(const StepTurn&) = delete;
  StepTurn& operator=(const StepTurn&) = delete;

  /// Waits for it, unless it has it.
  void take() {
    if (turns_ && !is_mine_) turns_->take();
    is_mine_ = true;
  }
  /// Takes it if nobody has it. Returns whether it is taken.
  bool try_take() {
    if (!is_mine_) is_mine_ = !turns_ || turns_->try_take();
    return is_mine_;
  }
  /// Without effect if it does not have it.
  void give_back() {
    if (std::exchange(is_mine_, false) && turns_) turns_->give_back();
  }
  bool is_wanted() const { return turns_ && is_mine_ && turns_->waiting() > 0; }

 private:
  std::shared_ptr<llm::StepTurns> turns_;
  bool is_mine_ = false;
};

}  // namespace attacca::driver
