// stream.cpp: see stream.hpp and inline_stream.hpp.
#include "backend/host/stream.hpp"

#include <fmt/format.h>

#include <cstring>

#include "backend/host/inline_stream.hpp"

namespace attacca::host {

using namespace graph;

std::uint64_t HostEvent::announce() {
  const std::lock_guard lock(mutex_);
  return ++announced_;
}
void HostEvent::reach(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  reached_ = std::max(reached_, ticket);
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

HostStream::HostStream(Workers& workers) : workers_(workers), thread_([this] { work_off(); }) {}

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

void HostStream::work_off() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || is_stopping_; });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    is_working_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      work();
    } catch (...) {
      error = std::current_exception();
    }
    work = nullptr;  // what it holds goes before anyone is told that it has ended
    lock.lock();
    if (error && !error_) error_ = error;
    is_working_ = false;
    changed_.notify_all();
  }
}

void HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !is_working_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void HostStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  const auto* bytes = static_cast<const std::byte*>(args);
  enqueue([&workers = workers_, &kernel, grid,
           copy = std::vector<std::byte>(bytes, bytes + kernel.args_size)] {
    run_kernel(workers, kernel, grid, copy.data());
  });
}
void HostStream::copy(void* to, const void* from, std::size_t bytes) {
  enqueue([=] { std::memmove(to, from, bytes); });
}
void HostStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  enqueue([=] { std::memset(to, value, bytes); });
}
void HostStream::host(const std::string& name, std::function<void()> call) {
  enqueue([name, call = std::move(call)] {
    try {
      call();
    } catch (const std::exception& error) {
      throw NodeFailed(name, fmt::format("host call '{}' failed: {}", name, error.what()));
    }
  });
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

void InlineStream::run(Workers& workers, const std::function<void(StreamRef)>& enqueue) {
  StreamState state(workers.self(), std::make_unique<InlineStream>(workers));
  enqueue(Access::stream(state));
}
void InlineStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  run_kernel(workers_, kernel, grid, args);
}
void InlineStream::copy(void* to, const void* from, std::size_t bytes) {
  std::memmove(to, from, bytes);
}
void InlineStream::fill(void* to, std::uint8_t value, std::size_t bytes) {
  std::memset(to, value, bytes);
}
void InlineStream::host(const std::string&, std::function<void()> call) { call(); }

}  // namespace attacca::host
