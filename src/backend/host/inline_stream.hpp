// inline_stream.hpp: a stream whose work runs at once on the calling thread; what a library call
// in a host graph enqueues on.
#pragma once

#include <functional>

#include "backend/host/run.hpp"

namespace attacca::host {

class InlineStream final : public graph::StreamImpl {
 public:
  /// Calls `enqueue` with such a stream.
  static void run(Workers& workers, const std::function<void(StreamRef)>& enqueue);

  explicit InlineStream(Workers& workers) : workers_(workers) {}
  void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void host(const std::string& name, std::function<void()> call) override;
  void record(graph::EventImpl&) override {}
  void wait(graph::EventImpl&) override {}
  void synchronize() override {}

 private:
  Workers& workers_;
};

}  // namespace attacca::host
