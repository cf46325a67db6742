// stream.hpp: the host's streams: a queue and a thread that works it off. Also its events.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
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

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t announced_ = 0;
  std::uint64_t reached_ = 0;
};

/// Failures are kept until `synchronize` throws the first; later work still runs.
class HostStream final : public graph::StreamImpl {
 public:
  explicit HostStream(Workers& workers);
  ~HostStream() override;

  void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void host(const std::string& name, std::function<void()> call) override;
  void record(graph::EventImpl& event) override;
  void wait(graph::EventImpl& event) override;
  void synchronize() override;

  void enqueue(std::function<void()> work);

 private:
  void work_off();

  Workers& workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_working_ = false;
  bool is_stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

/// The queue behind a stream. Throws BadArgument in a library call, whose stream has none.
HostStream& queue_of(graph::StreamImpl& stream, const char* what);

}  // namespace attacca::host
