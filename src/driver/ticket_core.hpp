// ticket_core.hpp: what the copies of a Ticket share: the events that nobody has read yet and the
// reply that they make up. A request with callbacks has no events to read: the text worker's thread
// calls the callbacks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "driver/inbox.hpp"
#include "driver/job.hpp"
#include "driver/receiver.hpp"

namespace attacca::llm::detail {

/// Thread-safe.
class TicketCore final : public driver::Sink {
 public:
  TicketCore(const Request& request, const driver::Job& job, std::shared_ptr<driver::Inbox> inbox);

  /// Called before the job is submitted. The job keeps this, and this does not keep the job.
  void belongs_to(const driver::JobPtr& job) { job_ = job; }
  bool deliver(RequestEvent event, std::exception_ptr failure) override;

  std::uint64_t id() const { return id_; }
  /// No patience: waits as long as it takes.
  std::optional<RequestEvent> next(std::optional<std::chrono::nanoseconds> patience);
  Reply wait();
  bool has_ended() const;
  void cancel();

 private:
  const std::uint64_t id_;
  const std::shared_ptr<driver::Inbox> inbox_;
  std::weak_ptr<driver::Job> job_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<RequestEvent> events_;
  driver::Receiver receiver_;  // with callbacks the text worker's until `has_ended_`
  bool has_ended_ = false;
  bool is_taken_ = false;
  bool is_cancelled_ = false;
};

}  // namespace attacca::llm::detail
