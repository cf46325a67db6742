// stream.hpp: the host's streams, each a queue and a thread that runs it, and events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "backend/host/run.hpp"

namespace attacca::host {

class HostEvent final : public graph::EventImpl, public std::enable_shared_from_this<HostEvent> {
 public:
  /// Returns the ticket that `wait` takes.
  std::uint64_t announce();
  void reach(std::uint64_t ticket);
  std::uint64_t latest() const;
  void wait(std::uint64_t ticket);
  bool is_reached() override;
  std::chrono::duration<double> since(graph::EventImpl& start) override;

 private:
  std::int64_t reached_ns() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t announced_ = 0;
  std::uint64_t reached_ = 0;
  std::int64_t reached_ns_ = 0;  // when the latest ticket was reached
};

/// The work of a stream. It outlives a stream that its own work destroyed.
class StreamQueue {
 public:
  explicit StreamQueue(Workers& workers) : workers_(workers), listed_(workers, *this) {}

  /// Runs the work until the queue is empty after `stop`.
  void work_off();
  void stop();
  /// Exceptions of nodes go into `failures` and not out of `work`.
  void enqueue(std::function<void()> work);
  void wait();
  /// Keeps it until the work now enqueued has ended. Does not keep it where there is none.
  void keep_while_busy(const std::shared_ptr<const void>& held);
  /// Keeps the device, which the stream no longer does.
  void go_on_alone();
  std::optional<Device> take_device();

  Workers& workers() { return workers_; }
  graph::Failures& failures() { return failures_; }

 private:
  /// Lists a stream with its device while it lives.
  class Listed {
   public:
    Listed(Workers& workers, StreamQueue& stream);
    ~Listed();
    Listed(const Listed&) = delete;

   private:
    Workers& workers_;
    StreamQueue& stream_;
  };

  Workers& workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_working_ = false;
  bool is_stopping_ = false;
  std::optional<Device> device_;
  graph::Failures failures_;
  Listed listed_;
};

/// Destroying a stream waits for its work, except in that work: then its thread goes on by itself.
class HostStream final : public graph::StreamImpl {
 public:
  explicit HostStream(Workers& workers);
  ~HostStream() override;

  void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_rows(const graph::CopyPart& copy) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void host(const std::string& name, std::function<void()> call) override;
  void record(graph::EventImpl& event) override;
  void wait(graph::EventImpl& event) override;
  void synchronize() override;
  bool has_failed() override { return queue_->failures().any(); }

  void enqueue(std::function<void()> work) { queue_->enqueue(std::move(work)); }
  graph::Failures& failures() { return queue_->failures(); }

 private:
  /// Whether the calling thread runs work of this stream: to wait for it would never end.
  bool is_own_work() const;

  std::shared_ptr<StreamQueue> queue_;
  std::thread thread_;
};

/// The queue behind a stream. Throws BadArgument in a library call, whose stream has none.
HostStream& queue_of(graph::StreamImpl& stream, const char* what);

}  // namespace attacca::host
