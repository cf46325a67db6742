// inline_stream.hpp: a stream whose work runs at once on the calling thread. Library calls in a
// host graph enqueue on it.
#pragma once

#include <functional>
#include <string>

#include "backend/host/run.hpp"

namespace attacca::host {

/// Ends a library call in which a kernel's body threw. That failure is already recorded.
struct StoppedInside {};

class InlineStream final : public graph::StreamImpl {
 public:
  /// Calls `enqueue` with such a stream. `graph` is the library call's graph.
  static void run(Workers& workers, const std::function<void(StreamRef)>& enqueue,
                  const std::string& graph, graph::Failures& failures);

  InlineStream(Workers& workers, const std::string& graph, graph::Failures& failures)
      : workers_(workers), graph_(graph), failures_(failures) {}
  void kernel(const KernelInfo& kernel, const Grid& grid, const void* args) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void copy_rows(const graph::CopyPart& copy) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  void host(const std::string& name, std::function<void()> call) override;
  void record(graph::EventImpl& event) override;
  void wait(graph::EventImpl&) override {}
  void synchronize() override {}
  bool has_failed() override { return false; }

 private:
  Workers& workers_;
  const std::string& graph_;
  graph::Failures& failures_;
};

}  // namespace attacca::host
