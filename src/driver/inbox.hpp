// inbox.hpp: what other threads tell the engine's driver: jobs to run, and jobs to end. Tickets
// keep it alive beyond their engine; it is closed then.
#pragma once

#include <atomic>
#include <attacca/error.hpp>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/pause_processor.hpp"
#include "driver/job.hpp"

namespace attacca::driver {

/// Thread-safe.
class Inbox {
 public:
  struct Mail {
    std::vector<JobPtr> submitted;
    std::vector<JobPtr> cancelled;
    std::exception_ptr failure;  // what the schedule stands on has failed
    bool is_begun = false;       // what came before was given to the one who `begins`
    bool is_closed = false;

    bool empty() const {
      return submitted.empty() && cancelled.empty() && !failure && !is_begun && !is_closed;
    }
  };

  /// Takes in mail for the driver while that still sleeps, on the thread that brings it: to wake a
  /// thread takes longer than to launch a step. It must not throw, wait or use the inbox.
  using Begin = std::function<void(Mail)>;
  /// REQUIRES: the driver does not wait for mail yet.
  void let_begin(Begin begin) {
    const std::lock_guard lock(mutex_);
    begin_ = std::move(begin);
  }

  /// The driver looks for mail so long before it sleeps: a thread that has slept finds its caches
  /// cold. REQUIRES: as above.
  void let_poll(std::chrono::nanoseconds most) {
    const std::lock_guard lock(mutex_);
    polls_ = most;
  }

  /// Throws DeviceError if the engine refuses further work.
  void submit(std::span<const JobPtr> jobs) {
    {
      const std::lock_guard lock(mutex_);
      if (!refusal_.empty()) throw DeviceError(refusal_);
      if (jobs.empty()) return;  // the driver would not wake up, and never be quiet again
      mail_.submitted.insert(mail_.submitted.end(), jobs.begin(), jobs.end());
      has_mail_ = true;
      is_quiet_ = false;
      if (begin_ && is_asleep_ && !mail_.is_closed && !mail_.failure) {
        begin_(std::exchange(mail_, {}));
        mail_.is_begun = true;
      }
    }
    arrived_.notify_one();
  }
  /// Ends a job. Without effect if it has ended, or if the engine has.
  void cancel(JobPtr job) {
    {
      const std::lock_guard lock(mutex_);
      if (mail_.is_closed) return;
      mail_.cancelled.push_back(std::move(job));
      has_mail_ = true;
    }
    arrived_.notify_one();
  }
  /// The driver should look whether its scheduler is still usable.
  void tell_of_failure(std::exception_ptr failure) {
    {
      const std::lock_guard lock(mutex_);
      mail_.failure = std::move(failure);
      has_mail_ = true;
    }
    arrived_.notify_one();
  }
  /// The driver should end.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      mail_.is_closed = true;
      has_mail_ = true;
    }
    arrived_.notify_one();
  }
  /// From now on `submit` throws this.
  void refuse(std::string reason) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(reason);
  }

  /// Waits until the driver has nothing to do.
  void wait_until_quiet() {
    std::unique_lock lock(mutex_);
    quiet_.wait(lock, [&] { return is_quiet_; });
  }

  /// The driver takes all mail. If it `has_nothing_to_do`, it first waits until there is some.
  Mail take(bool has_nothing_to_do) {
    std::unique_lock lock(mutex_);
    if (has_nothing_to_do && mail_.empty()) {
      is_quiet_ = true;
      quiet_.notify_all();
      if (polls_ > polls_.zero()) {
        lock.unlock();
        poll();
        lock.lock();
      }
    }
    if (has_nothing_to_do && mail_.empty()) {
      is_asleep_ = true;
      arrived_.wait(lock, [&] { return !mail_.empty(); });
      is_asleep_ = false;
    }
    Mail mail = std::exchange(mail_, {});
    has_mail_ = mail_.is_closed = mail.is_closed;
    return mail;
  }

 private:
  void poll() const {
    const auto end = std::chrono::steady_clock::now() + polls_;
    while (!has_mail_ && std::chrono::steady_clock::now() < end) pause_processor();
  }

  std::mutex mutex_;
  std::condition_variable arrived_, quiet_;
  Mail mail_;
  std::atomic<bool> has_mail_ = false;
  Begin begin_;
  std::chrono::nanoseconds polls_{};
  bool is_asleep_ = false;  // the driver, which touches nothing then
  bool is_quiet_ = true;
  std::string refusal_;
};

}  // namespace attacca::driver
