// timeline.cpp: collects spans and adds them up.
#include <attacca/timeline.hpp>

#include <algorithm>
#include <mutex>

#include "graph/executor.hpp"
#include "instruments/cupti.hpp"

namespace attacca {

/// Where spans come from: the host executor's reports, or the GPU's records.
struct Timeline::Source final : graph::Observer {
  explicit Source(const Device& on) : device(on) {}

  void ran(const graph::Execution& execution) override {
    if (execution.part_of != 0) return;
    const std::lock_guard lock(mutex);
    spans.push_back(
        {std::string(execution.node), execution.start_ns, execution.end_ns, execution.worker});
  }

  Device device;
  std::mutex mutex;
  std::vector<Span> spans;
  std::unique_ptr<instruments::GpuRecorder> gpu;
  std::string why_not;
};

Timeline::Timeline(const Device& device) : source_(std::make_shared<Source>(device)) {
  if (device.is_cuda())
    source_->gpu = instruments::start_gpu_recorder(source_->why_not);
  else
    graph::impl_of(device).observe(source_);
}

Timeline::~Timeline() {
  if (!source_->device.is_cuda()) graph::impl_of(source_->device).observe(nullptr);
}

bool Timeline::is_recording() const { return source_->why_not.empty(); }
std::string Timeline::why_not() const { return source_->why_not; }

std::vector<Span> Timeline::spans() const {
  std::vector<Span> spans;
  if (source_->gpu) {
    for (instruments::GpuSpan& span : source_->gpu->spans())
      spans.push_back(
          {std::move(span.name), span.start_ns, span.end_ns, static_cast<int>(span.stream)});
  } else {
    const std::lock_guard lock(source_->mutex);
    spans = source_->spans;
  }
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  return spans;
}

TimelineSummary summarize(const std::vector<Span>& spans) {
  TimelineSummary summary;
  summary.span_count = spans.size();
  if (spans.empty()) return summary;
  std::vector<Span> sorted = spans;
  std::sort(sorted.begin(), sorted.end(),
            [](const Span& a, const Span& b) { return a.start_ns < b.start_ns; });
  // Sweep by start: time counts as busy once, however many nodes overlap.
  std::int64_t covered_to = sorted.front().start_ns;
  for (const Span& span : sorted) {
    if (span.end_ns > covered_to) {
      summary.busy_ns += span.end_ns - std::max(span.start_ns, covered_to);
      covered_to = span.end_ns;
    }
  }
  summary.elapsed_ns = covered_to - sorted.front().start_ns;
  return summary;
}

}  // namespace attacca
