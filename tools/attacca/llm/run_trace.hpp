// run_trace.hpp: records the nodes and steps of an engine, for `attacca run --trace`.
#pragma once

#include <attacca/llm.hpp>
#include <attacca/trace.hpp>
#include <optional>
#include <string>

namespace attacca::tool {

class RunTrace {
 public:
  /// `file`: empty to record nothing. Throws Error if it cannot be written. REQUIRES: the engine
  /// made from `options` ends before this does.
  RunTrace(std::string file, llm::EngineOptions& options);

  /// Records from now on, when the engine is built.
  void start();
  /// Writes what ran since `start`. REQUIRES: the engine is idle.
  void finish();

 private:
  void add(const llm::StepRecord& record);

  std::string file_;
  Device device_;
  std::optional<Tracer> tracer_;
  std::int64_t last_end_ns_ = 0;
};

}  // namespace attacca::tool
