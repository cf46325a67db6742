// stream.cpp: the host's streams: the queue with its thread, and the one that runs work at once.
#include "backend/host/stream.hpp"

#include <fmt/core.h>

#include <cstring>

#include "backend/host/inline_stream.hpp"
#include "core/clock.hpp"
#include "core/thread_name.hpp"

namespace attacca::host {

using namespace graph;

std::uint64_t HostEvent::announce() {
  const std::lock_guard lock(mutex_);
  return ++announced_;
}
void HostEvent::reach(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  if (ticket > reached_) {
    reached_ = ticket;
    reached_ns_ = now_ns();
  }
  changed_.notify_all();
}
std::uint64_t HostEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return announced_;
}
void HostEvent::wait(std::uint64_t ticket) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reached_ >= ticket; });
}

bool HostEvent::is_reached() {
  const std::lock_guard lock(mutex_);
  return reached_ == announced_;
}
std::int64_t HostEvent::reached_ns() const {
  const std::lock_guard lock(mutex_);
  return reached_ns_;
}
std::chrono::duration<double> HostEvent::since(EventImpl& start) {
  return std::chrono::nanoseconds(reached_ns() - static_cast<HostEvent&>(start).reached_ns());
}

HostStream::Listed::Listed(Workers& workers, HostStream& stream)
    : workers_(workers), stream_(stream) {
  const std::lock_guard lock(workers_.streams_mutex);
  workers_.streams.push_back(&stream_);
}
HostStream::Listed::~Listed() {
  const std::lock_guard lock(workers_.streams_mutex);
  std::erase(workers_.streams, &stream_);
}

void Workers::keep_while_busy(const std::shared_ptr<const void>& held) {
  const std::lock_guard lock(streams_mutex);
  for (HostStream* stream : streams) stream->keep_while_busy(held);
}

HostStream::HostStream(Workers& workers)
    : workers_(workers), listed_(workers, *this), thread_([this] { work_off(); }) {}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void HostStream::enqueue(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void HostStream::keep_while_busy(const std::shared_ptr<const void>& held) {
  const std::lock_guard lock(mutex_);
  if (!queue_.empty() || is_working_) queue_.push_back([held] {});
}

void HostStream::work_off() {
  name_this_thread("attacca-stream");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || is_stopping_; });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    is_working_ = true;
    lock.unlock();
    try {
      work();
    } catch (...) {  // no memory or threads left; a node's exception never gets here
      failures_.add(failure_of_current_exception("work", ""));
    }
    work = nullptr;  // destroyed before anyone is told that it has ended
    lock.lock();
    is_working_ = false;
    changed_.notify_all();
  }
}

void HostStream::synchronize() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !is_working_; });
  }
  failures_.rethrow();
}

void HostStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  const auto* bytes = static_cast<const std::byte*>(args);
  enqueue([this, &kernel, grid, copy = std::vector<std::byte>(bytes, bytes + kernel.args_size)] {
    (void)run_kernel(workers_, kernel, grid, copy.data(), "", failures_);
  });
}
void HostStream::copy(void* to, const void* from, std::size_t bytes) {
  enqueue([=] { std::memmove(to, from, bytes); });
}
void HostStream::copy_rows(const CopyPart& copy) {
  enqueue([copy] { move_rows(copy); });
}
void HostStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  enqueue([=] { std::memset(to, value, bytes); });
}
void HostStream::host(const std::string& name, std::function<void()> call) {
  enqueue([this, name, call = std::move(call)] { run_host_call(name, "", call, failures_); });
}
void HostStream::record(EventImpl& event) {
  const auto host_event = static_cast<HostEvent&>(event).shared_from_this();
  enqueue([host_event, ticket = host_event->announce()] { host_event->reach(ticket); });
}
void HostStream::wait(EventImpl& event) {
  const auto host_event = static_cast<HostEvent&>(event).shared_from_this();
  enqueue([host_event, ticket = host_event->latest()] { host_event->wait(ticket); });
}

HostStream& queue_of(StreamImpl& stream, const char* what) {
  auto* queue = dynamic_cast<HostStream*>(&stream);
  if (!queue)
    throw BadArgument(fmt::format("{} inside a library call; do it outside, on a Stream", what));
  return *queue;
}

void InlineStream::run(Workers& workers, const std::function<void(StreamRef)>& enqueue,
                       const std::string& graph, Failures& failures) {
  StreamState state(workers.self(), std::make_unique<InlineStream>(workers, graph, failures));
  enqueue(Access::stream(state));
}
void InlineStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  if (!run_kernel(workers_, kernel, grid, args, graph_, failures_)) throw StoppedInside();
}
void InlineStream::copy(void* to, const void* from, std::size_t bytes) {
  std::memmove(to, from, bytes);
}
void InlineStream::copy_rows(const CopyPart& copy) { move_rows(copy); }
void InlineStream::record(EventImpl& event) {
  auto& host_event = static_cast<HostEvent&>(event);
  host_event.reach(host_event.announce());
}
void InlineStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  std::memset(to, value, bytes);
}
void InlineStream::host(const std::string& name, std::function<void()> call) {
  run_host_call(name, graph_, call, failures_);
}

}  // namespace attacca::host
