// driver.cpp: the engine's loop. An exception of a step ends the requests that had a slot, and no
// others, unless the device is lost.
#include "driver/driver.hpp"

#include <fmt/core.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <utility>

#include "core/thread_name.hpp"

namespace attacca::driver {

using llm::Finish;

namespace {

std::string message_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of an unknown type";
  }
}

}  // namespace

Driver::Driver(std::shared_ptr<Inbox> inbox, Scheduler& scheduler, TextWorker& text)
    : inbox_(std::move(inbox)), scheduler_(scheduler), text_(text), stats_(scheduler.stats()) {
  if (scheduler_.can_begin())
    inbox_->let_begin([this](Inbox::Mail mail) { begin(std::move(mail)); });
  inbox_->let_poll(scheduler_.polls());
  thread_ = std::thread([this] { run(); });
}

Driver::~Driver() {
  inbox_->close();
  thread_.join();
}

llm::EngineStats Driver::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void Driver::run() {
  name_this_thread("attacca-steps");
  while (true) {
    Inbox::Mail mail = inbox_->take(scheduler_.is_idle() && line_.empty());
    const StepClock::Running running = scheduler_.running();
    const bool is_closed = mail.is_closed;
    const std::exception_ptr failure = std::exchange(mail.failure, nullptr);
    take_in(std::move(mail));
    if (is_closed) break;
    if (failure && !lost_) fail(failure);
    expire();
    admit();
    step();
    hand_over();
  }
  end_all(Finish::cancelled);
  hand_over();
}

/// On the thread that submits, while the driver's sleeps and the inbox is locked. The driver's goes
/// on from here; errors are left to it.
void Driver::begin(Inbox::Mail mail) noexcept {
  try {
    const StepClock::Running running = scheduler_.running();
    take_in(std::move(mail));
    expire();
    admit();
    scheduler_.begin();
  } catch (...) {
    begin_failure_ = std::current_exception();
  }
}

void Driver::take_in(Inbox::Mail mail) {
  for (JobPtr& job : mail.submitted) {
    if (job->deadline) job->in_deadlines = deadlines_.emplace(*job->deadline, job);
    if (lost_)
      end(job, Finish::failed, lost_);
    else
      line_.push(std::move(job));
  }
  for (const JobPtr& job : mail.cancelled) end(job, Finish::cancelled);
}

/// Ends the jobs whose deadlines have passed.
void Driver::expire() {
  if (deadlines_.empty()) return;
  const Clock::time_point now = Clock::now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now)
    end(JobPtr(deadlines_.begin()->second), Finish::deadline);
}

void Driver::admit() {
  while (const JobPtr job = line_.pop(scheduler_.room())) {
    try {
      scheduler_.admit(job);
      job->place = Job::Place::scheduled;
      job->placed = Clock::now();
    } catch (...) {
      report(job, Finish::failed, std::current_exception());
    }
  }
}

void Driver::step() {
  try {
    if (begin_failure_) std::rethrow_exception(std::exchange(begin_failure_, nullptr));
    const bool has_run = scheduler_.step(outcomes_);
    if (!has_run && !scheduler_.is_idle())
      throw Error("the scheduler has requests and plans no step; this is a bug of attacca");
    const bool has_ended = std::any_of(outcomes_.begin(), outcomes_.end(),
                                       [](const Outcome& outcome) { return outcome.finish; });
    if (has_ended || scheduler_.is_idle()) scheduler_.flush();
  } catch (...) {
    fail(std::current_exception());
  }
  for (const Outcome& outcome : outcomes_)
    if (outcome.finish) retire(*outcome.job);
}

/// A step failed, or its log could not be written: so do its requests. If the device is lost, all
/// others fail too, and no more are taken.
void Driver::fail(const std::exception_ptr& failure) {
  // Tokens of a failed step are void, and a stop string among them must end no reply.
  std::erase_if(outcomes_, [](const Outcome& outcome) { return !outcome.finish; });
  for (Outcome& outcome : outcomes_) {
    outcome.finish = Finish::failed;
    outcome.error = message_of(failure);
    outcome.failure = failure;
  }
  for (const JobPtr& job : scheduler_.fail_running()) report(job, Finish::failed, failure);
  if (scheduler_.is_usable()) return;
  const std::string reason = fmt::format(
      "the engine has lost its device and takes no more requests; start the program again ({})",
      message_of(failure));
  lost_ = std::make_exception_ptr(DeviceError(reason));
  loss_ = message_of(failure);
  inbox_->refuse(reason);
  end_all(Finish::failed, lost_);
}

/// Ends a job wherever it is. Without effect if it has ended.
void Driver::end(const JobPtr& job, Finish finish, const std::exception_ptr& failure) {
  if (job->place == Job::Place::ended) return;
  if (job->place == Job::Place::in_line) line_.remove(*job);
  if (job->place == Job::Place::scheduled) scheduler_.remove(*job);
  report(job, finish, failure);
}

/// Ends a job that was taken out of the line or of the schedule.
void Driver::report(const JobPtr& job, Finish finish, const std::exception_ptr& failure) {
  retire(*job);
  outcomes_.push_back({.job = job,
                       .at = Clock::now(),
                       .finish = finish,
                       .error = failure ? message_of(failure) : "",
                       .failure = failure,
                       .cached_tokens = job->cached_tokens});
}

void Driver::end_all(Finish finish, const std::exception_ptr& failure) {
  for (const JobPtr& job : scheduler_.fail_running()) report(job, finish, failure);
  for (const JobPtr& job : scheduler_.remove_all()) report(job, finish, failure);
  while (const JobPtr job = line_.pop()) report(job, finish, failure);
}

void Driver::retire(Job& job) {
  if (job.place == Job::Place::ended) return;
  job.place = Job::Place::ended;
  if (job.deadline) deadlines_.erase(job.in_deadlines);
}

void Driver::hand_over() {
  {
    const std::lock_guard lock(mutex_);
    stats_ = scheduler_.stats();
    stats_.requests_waiting += line_.size();
    stats_.has_lost_device = lost_ != nullptr;
    stats_.loss = loss_;
  }
  text_.send(std::exchange(outcomes_, {}));
}

}  // namespace attacca::driver
