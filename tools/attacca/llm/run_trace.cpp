// run_trace.cpp: makes a slice of each step, above the nodes that the tracer sees.
#include "llm/run_trace.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "files.hpp"

namespace attacca::tool {

RunTrace::RunTrace(TraceChoice choice, llm::EngineOptions& options)
    : choice_(std::move(choice)), device_(options.device) {
  if (choice_.file.empty()) return;
  require_writable(choice_.file);
  options.on_step = [this](const llm::StepRecord& record) { add(record); };
  // Loops record themselves, and CUPTI knows nodes, if they are instantiated while it lives.
  tracer_.emplace(device_, choice_.level);
}

void RunTrace::start() {
  if (choice_.file.empty()) return;
  say_what_is_missing(*tracer_, choice_.file);
  started_ns_ = Tracer::now_ns();
}

void RunTrace::finish() {
  if (!tracer_) return;
  write_recorded(*tracer_, choice_.file, started_ns_);
  tracer_.reset();
}

void RunTrace::add(const llm::StepRecord& record) {
  const std::int64_t end =
      std::chrono::duration_cast<std::chrono::nanoseconds>(record.ended.time_since_epoch()).count();
  const auto length = static_cast<std::int64_t>(record.microseconds * 1000);
  // The host may learn of two steps at once; their slices must not overlap.
  const std::int64_t begin = std::max(end - length, std::min(last_end_ns_, end));
  last_end_ns_ = end;
  tracer_->add({.process = "engine", .name = "steps", .has_ranges = true},
               {.name = record.is_decode ? "decode step" : "mixed step",
                .begin_ns = begin,
                .end_ns = end,
                .arguments = {{"step", static_cast<std::int64_t>(record.step)},
                              {"tokens", record.tokens},
                              {"size", record.size},
                              {"rows", record.rows},
                              {"mode", llm::step_mode_name(record.mode)}}});
}

}  // namespace attacca::tool
