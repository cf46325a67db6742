// timeline.hpp: records which nodes ran when, and how long the device was idle in between. On the
// host the executor reports its nodes; on CUDA the records come from CUPTI, loaded where it is
// installed. CUPTI sees the nodes of a graph that was instantiated while recording. It sees nothing
// of graphs that the device launches.
#pragma once

#include <attacca/device.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace attacca {

/// One node that ran.
struct Span {
  std::string name;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  int lane = 0;  // worker thread or CUDA stream
};

/// The sums of a timeline.
struct TimelineSummary {
  std::int64_t elapsed_ns = 0;  // from the first start to the last end
  std::int64_t busy_ns = 0;     // with at least one node running
  std::size_t span_count = 0;
  double idle_share() const {
    return elapsed_ns == 0 ? 0.0
                           : 1.0 - static_cast<double>(busy_ns) / static_cast<double>(elapsed_ns);
  }
};
TimelineSummary summarize(const std::vector<Span>& spans);

/// Records while it lives. One at a time per device.
class Timeline {
 public:
  explicit Timeline(const Device& device);
  ~Timeline();
  /// Whether recording works; if not, `why_not` names what is missing.
  bool is_recording() const;
  std::string why_not() const;
  /// The nodes that ran so far, by start time. Synchronize the streams first.
  std::vector<Span> spans() const;

  struct Source;

 private:
  std::shared_ptr<Source> source_;
};

}  // namespace attacca
