// plan_line.cpp: broadcasts plans, and news that there is none.
#include "engine/plan_line.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace attacca::engine {

namespace {

Group group_of_all(const Group& ranks) {
  std::vector<int> members(static_cast<std::size_t>(ranks.size()));
  std::iota(members.begin(), members.end(), 0);
  return ranks.subgroup(members);
}

}  // namespace

PlanLine::PlanLine(const Group& ranks, std::size_t lines)
    : group_(group_of_all(ranks)), message_(lines + 1) {
  if (group_.rank() == 0) thread_ = std::thread([this] { send_idle_news(); });
}

PlanLine::~PlanLine() {
  if (group_.rank() != 0) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  try {
    const std::lock_guard lock(mutex_);
    send(News::end);
  } catch (const RanksBroken&) {  // the others know
  }
}

void PlanLine::send(News news) {
  std::memcpy(message_.data(), &news, sizeof news);
  ++sent_;
  group_.broadcast(std::span(message_), 0).named("plan").run();
}

void PlanLine::lead(News step, std::span<const schedule::Line> plan) {
  const std::lock_guard lock(mutex_);
  std::copy(plan.begin(), plan.end(), message_.begin() + 1);
  send(step);
}

void PlanLine::begin_loop() {
  const std::lock_guard lock(mutex_);
  send(News::loop);
  has_loop_ = true;
}

void PlanLine::end_loop() {
  const std::lock_guard lock(mutex_);
  has_loop_ = false;
}

PlanLine::News PlanLine::follow(std::span<schedule::Line> plan) {
  for (;;) {
    group_.broadcast(std::span(message_), 0).named("plan").run();
    News news = News::idle;
    std::memcpy(&news, message_.data(), sizeof news);
    if (news == News::idle) {
      hear_idle_news();
      continue;
    }
    if (news == News::step || news == News::step_of_highest)
      std::copy(message_.begin() + 1, message_.end(), plan.begin());
    return news;
  }
}

void PlanLine::send_idle_news() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::uint64_t seen = sent_;
    if (changed_.wait_for(lock, group_.deadline() / 3, [&] { return is_ending_; })) return;
    if (sent_ != seen || has_loop_) continue;
    try {
      group_.check();
      send(News::idle);
      hear_idle_news();
    } catch (const RanksBroken&) {
      failure_ = std::current_exception();
      break;
    }
  }
  const Tell tell = tell_;
  lock.unlock();  // who is told may wait for a thread that sends a plan
  if (tell) tell(failure_);
}

void PlanLine::hear_idle_news() {
  group_.barrier().named("hear that there is nothing to compute").run();
}

void PlanLine::tell_of_failure(Tell tell) {
  std::unique_lock lock(mutex_);
  tell_ = tell;
  const std::exception_ptr failure = failure_;
  lock.unlock();
  if (failure) tell(failure);
}

bool PlanLine::is_broken() const noexcept {
  try {
    group_.check();
    return false;
  } catch (...) {
    return true;
  }
}

}  // namespace attacca::engine
