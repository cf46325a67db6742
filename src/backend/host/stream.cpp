// stream.cpp: the host's streams: the queue with its thread, and the one that runs work at once.
#include "backend/host/stream.hpp"

#include <fmt/core.h>

#include <cstring>
#include <utility>

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

StreamQueue::Listed::Listed(Workers& workers, StreamQueue& stream)
    : workers_(workers), stream_(stream) {
  const std::lock_guard lock(workers_.streams_mutex);
  workers_.streams.push_back(&stream_);
}
StreamQueue::Listed::~Listed() {
  const std::lock_guard lock(workers_.streams_mutex);
  std::erase(workers_.streams, &stream_);
}

void Workers::keep_while_busy(const std::shared_ptr<const void>& held) {
  const std::lock_guard lock(streams_mutex);
  for (StreamQueue* stream : streams) stream->keep_while_busy(held);
}

void StreamQueue::stop() {
  const std::lock_guard lock(mutex_);
  is_stopping_ = true;
  changed_.notify_all();
}

void StreamQueue::enqueue(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void StreamQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !is_working_; });
}

void StreamQueue::keep_while_busy(const std::shared_ptr<const void>& held) {
  std::unique_lock lock(mutex_);
  if (queue_.empty() && !is_working_) return;
  try {
    queue_.push_back([held] {});
  } catch (const std::bad_alloc&) {  // no memory to keep it: wait instead
    changed_.wait(lock, [&] { return queue_.empty() && !is_working_; });
  }
}

void StreamQueue::go_on_alone() {
  const std::lock_guard lock(mutex_);
  device_ = workers_.self();
}

std::optional<Device> StreamQueue::take_device() {
  const std::lock_guard lock(mutex_);
  return std::exchange(device_, std::nullopt);
}

void StreamQueue::work_off() {
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

namespace {

/// Counts the threads of streams that their own work destroyed. The program ends after them.
class FreeThreads {
 public:
  static void add() {
    const std::lock_guard lock(all().mutex);
    ++all().running;
    static const WaitAtExit wait;
  }
  static void remove() {
    const std::lock_guard lock(all().mutex);
    --all().running;
    all().changed.notify_all();
  }

 private:
  struct All {
    std::mutex mutex;
    std::condition_variable changed;
    int running = 0;
  };
  struct WaitAtExit {
    ~WaitAtExit() {
      std::unique_lock lock(all().mutex);
      all().changed.wait(lock, [] { return all().running == 0; });
    }
  };
  /// Never destroyed: a stream may be destroyed while the program ends.
  static All& all() {
    static All& only = *new All;
    return only;
  }
};

void run_thread(std::shared_ptr<StreamQueue> queue) {
  queue->work_off();
  std::optional<Device> device = queue->take_device();
  queue.reset();  // before its device
  if (!device) return;
  device.reset();
  FreeThreads::remove();
}

}  // namespace

HostStream::HostStream(Workers& workers)
    : queue_(std::make_shared<StreamQueue>(workers)), thread_(run_thread, queue_) {}

HostStream::~HostStream() {
  const bool is_own_work = this->is_own_work();
  if (is_own_work) {
    queue_->go_on_alone();
    FreeThreads::add();
  }
  queue_->stop();
  if (is_own_work)
    thread_.detach();
  else
    thread_.join();
}

bool HostStream::is_own_work() const {
  return thread_.get_id() == std::this_thread::get_id() || InCall::is_of(queue_->failures());
}

void HostStream::synchronize() {
  if (is_own_work())
    throw BadArgument(
        "a stream was synchronized in its own work, which would wait for itself for ever; "
        "synchronize it outside, or leave it out: work of a stream runs in order");
  queue_->wait();
  queue_->failures().rethrow();
}

void HostStream::kernel(const KernelInfo& kernel, const Grid& grid, const void* args) {
  const auto* bytes = static_cast<const std::byte*>(args);
  enqueue([queue = queue_.get(), &kernel, grid,
           copy = std::vector<std::byte>(bytes, bytes + kernel.args_size)] {
    (void)run_kernel(queue->workers(), kernel, grid, copy.data(), "", queue->failures());
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
  enqueue([queue = queue_.get(), name, call = std::move(call)] {
    run_host_call(name, "", call, queue->failures());
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

void InlineStream::run(Workers& workers, const std::function<void(StreamRef)>& enqueue,
                       const std::string& graph, Failures& failures) {
  const InCall in_call(failures);
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
