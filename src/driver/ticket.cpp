// ticket.cpp: llm::Ticket: reading events, waiting for a reply, cancelling.
#include <fmt/core.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <utility>

#include "driver/ticket_core.hpp"

namespace attacca::llm {

namespace detail {

TicketCore::TicketCore(const Request& request, const driver::Job& job,
                       std::shared_ptr<driver::Inbox> inbox)
    : id_(job.id), inbox_(std::move(inbox)), receiver_(request, job.prompt.size()) {}

bool TicketCore::deliver(RequestEvent event, std::exception_ptr) {
  bool goes_on = true;
  if (receiver_.has_callbacks()) {
    try {
      goes_on = receiver_.take(std::move(event));
    } catch (const std::exception& error) {
      goes_on = false;
      receiver_.fail(fmt::format("a callback of the request threw: {}", error.what()));
    } catch (...) {
      goes_on = false;
      receiver_.fail("a callback of the request threw");
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (receiver_.has_callbacks())
      has_ended_ = !goes_on;
    else
      events_.push_back(std::move(event));
  }
  arrived_.notify_all();
  return goes_on;
}

std::optional<RequestEvent> TicketCore::next(std::optional<std::chrono::nanoseconds> patience) {
  if (receiver_.has_callbacks())
    throw BadArgument(
        fmt::format("request {} has callbacks, which get its events; submit it without", id_));
  std::unique_lock lock(mutex_);
  const auto is_there = [&] { return has_ended_ || !events_.empty(); };
  if (!patience || *patience > std::chrono::hours(1000))  // a later time may not be a number
    arrived_.wait(lock, is_there);
  else
    arrived_.wait_for(lock, *patience, is_there);
  if (events_.empty()) return std::nullopt;
  RequestEvent event = std::move(events_.front());
  events_.pop_front();
  has_ended_ = !receiver_.take(event);
  if (has_ended_) arrived_.notify_all();
  return event;
}

Reply TicketCore::wait() {
  if (!receiver_.has_callbacks())
    while (next(std::nullopt)) {
    }
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return has_ended_; });
  if (is_taken_) throw BadArgument(fmt::format("the reply of request {} was taken already", id_));
  is_taken_ = true;
  return std::move(receiver_.reply());
}

bool TicketCore::has_ended() const {
  const std::lock_guard lock(mutex_);
  return has_ended_;
}

void TicketCore::cancel() {
  {
    const std::lock_guard lock(mutex_);
    if (is_cancelled_) throw BadArgument(fmt::format("request {} was cancelled already", id_));
    is_cancelled_ = true;
  }
  if (driver::JobPtr job = job_.lock()) inbox_->cancel(std::move(job));
}

}  // namespace detail

detail::TicketCore& Ticket::core() const {
  if (!core_) throw BadArgument("this ticket has no request; Engine::submit gives one that has");
  return *core_;
}

std::uint64_t Ticket::id() const { return core().id(); }
std::optional<RequestEvent> Ticket::next() { return core().next(std::nullopt); }
std::optional<RequestEvent> Ticket::next(std::chrono::nanoseconds patience) {
  return core().next(patience);
}
Reply Ticket::wait() { return core().wait(); }
bool Ticket::has_ended() const { return core().has_ended(); }
void Ticket::cancel() { core().cancel(); }

}  // namespace attacca::llm
