// mask_worker.cpp: tokens go in, masks come out.
#include "driver/mask_worker.hpp"

#include <exception>
#include <utility>

#include "core/thread_name.hpp"

namespace attacca::driver {

MaskWorker::~MaskWorker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  sent_or_over_.notify_one();
  thread_.join();
}

void MaskWorker::send(JobPtr job, std::int32_t token, bool wants_mask) {
  {
    const std::lock_guard lock(mutex_);
    sent_.push_back({std::move(job), token, wants_mask});
    open_ += wants_mask;
  }
  if (thread_.joinable())
    sent_or_over_.notify_one();
  else
    thread_ = std::thread([this] { run(); });
}

bool MaskWorker::wait(std::chrono::microseconds patience) {
  if (!has_open()) return false;
  std::unique_lock lock(mutex_);
  all_ready_.wait_for(lock, patience, [&] { return ready_.size() == open_; });
  return true;
}

std::vector<MaskWorker::Ready> MaskWorker::take() {
  const std::lock_guard lock(mutex_);
  open_ -= ready_.size();
  return std::exchange(ready_, {});
}

void MaskWorker::run() {
  name_this_thread("attacca-masks");
  std::unique_lock lock(mutex_);
  while (true) {
    sent_or_over_.wait(lock, [&] { return is_over_ || !sent_.empty(); });
    if (is_over_) return;
    Sent next = std::move(sent_.front());
    sent_.pop_front();
    lock.unlock();
    Ready ready{.job = std::move(next.job), .mask = {}, .error = {}, .token = next.token};
    std::string& error = ready.job->grammar_error;
    try {
      if (error.empty()) ready.job->grammar->advance(next.token);
      if (error.empty() && next.wants_mask) {
        ready.mask = ready.job->grammar->allowed();
        ready.loops = ready.job->grammar->loops_on_plain();
        ready.sharing = ready.job->grammar->sharing();
      }
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    if (next.wants_mask) ready.error = error;
    lock.lock();
    if (!next.wants_mask) continue;
    ready_.push_back(std::move(ready));
    if (ready_.size() == open_) all_ready_.notify_one();
  }
}

}  // namespace attacca::driver
