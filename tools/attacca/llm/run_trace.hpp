// run_trace.hpp: records the nodes and steps of an engine, for --trace of `attacca run` and
// `serve`.
#pragma once

#include <attacca/llm.hpp>
#include <attacca/trace.hpp>
#include <optional>
#include <string>

#include "trace_choice.hpp"

namespace attacca::tool {

class RunTrace {
 public:
  /// Throws Error if the file cannot be written. REQUIRES: the engine made from `options` ends
  /// before this does.
  RunTrace(TraceChoice choice, llm::EngineOptions& options);

  /// What ran before, while the engine was built, is not written.
  void start();
  /// Writes what ran since `start`. REQUIRES: the engine is idle.
  void finish();

 private:
  void add(const llm::StepRecord& record);

  TraceChoice choice_;
  Device device_;
  std::optional<Tracer> tracer_;
  std::int64_t started_ns_ = 0;
  std::int64_t last_end_ns_ = 0;
};

}  // namespace attacca::tool
