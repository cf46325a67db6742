// stream.hpp: the host's streams, each a queue and a thread that runs it, and events.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
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

/// Destroying a stream waits for its work.
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
  bool has_failed() override { return failures_.any(); }

  /// Exceptions of nodes go into `failures` and not out of `work`.
  void enqueue(std::function<void()> work);
  /// Keeps it until the work now enqueued has ended. Does not keep it where there is none.
  void keep_while_busy(const std::shared_ptr<const void>& held);
  graph::Failures& failures() { return failures_; }

 private:
  /// Lists a stream with its device while it lives.
  class Listed {
   public:
    Listed(Workers& workers, HostStream& stream);
    ~Listed();
    Listed(const Listed&) = delete;

   private:
    Workers& workers_;
    HostStream& stream_;
  };
  void work_off();

  Workers& workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_working_ = false;
  bool is_stopping_ = false;
  graph::Failures failures_;
  Listed listed_;
  std::thread thread_;  // last: it uses all the rest
};

/// The queue behind a stream. Throws BadArgument in a library call, whose stream has none.
HostStream& queue_of(graph::StreamImpl& stream, const char* what);

}  // namespace attacca::host
