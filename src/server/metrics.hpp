// metrics.hpp: what /metrics shows, by prometheus-cpp. Names that begin with vllm: are
// those that dashboards for vLLM read, and mean the same; the others are attacca's own.
#pragma once

#include <prometheus/metric_family.h>

#include <array>
#include <attacca/llm.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attacca::server {

/// Families of metrics and their text, by prometheus-cpp. It is made for one answer: counts are
/// kept where they arise, so that no token passes through the library.
class MetricsPage {
 public:
  /// The family of that name, for all who add to it. The reference holds until the next call.
  prometheus::MetricFamily& family(prometheus::MetricType type, const std::string& name,
                                   const std::string& help);

  std::string text() const;

 private:
  std::vector<prometheus::MetricFamily> families_;
};

/// Counts of durations by upper bound, in seconds.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06,  0.08,
                                         0.1,   0.25,  0.5,  0.75, 1.0,  2.5,   5.0,
                                         7.5,   10.0,  20.0, 40.0, 80.0, 160.0, 640.0};

  void add(double seconds);
  prometheus::ClientMetric::Histogram collect() const;

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_ = {};
  double sum_ = 0;
};

/// What a model's engine and the server say of it.
struct ModelMoment {
  struct Engine {
    llm::EngineStats stats = {};
    std::size_t pages = 0;
  };
  std::optional<Engine> engine = {};  // none: the model is not loaded
  std::size_t admitted = 0;
  std::size_t bytes = 0;  // that it takes
};

/// Counts what goes through a model. Thread-safe.
class Metrics {
 public:
  explicit Metrics(const std::string& model);

  void add_first_token(double seconds);
  void add_token_gap(double seconds);
  void add_end(const llm::Reply& reply);
  void add_step(const llm::StepRecord& record);

  void add_to(MetricsPage& page, const ModelMoment& moment) const;

 private:
  const std::string model_;
  mutable std::mutex mutex_;
  std::array<std::uint64_t, 5> ends_ = {};  // by llm::Finish
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t generated_tokens_ = 0;
  std::map<std::pair<bool, std::uint32_t>, std::uint64_t> hits_;  // by is_decode and graph size
  Histogram first_token_;
  Histogram token_gap_;
  Histogram waiting_;
  Histogram prefilling_;
  Histogram decoding_;
  Histogram computing_;
  Histogram output_token_;
  Histogram whole_;
};

/// Counts replies, whichever model they are from. Thread-safe.
class HttpMetrics {
 public:
  /// `path`: one of the server's own, so that clients cannot make up new series.
  void count_reply(const std::string& path, int status);
  void add_to(MetricsPage& page, std::size_t connections) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> replies_;
};

}  // namespace attacca::server
