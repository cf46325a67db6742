// metrics.hpp: what /metrics shows, in Prometheus' text format. Names that begin with vllm: are
// those that dashboards for vLLM read, and mean the same; the others are attacca's own.
#pragma once

#include <array>
#include <attacca/llm.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace attacca::server {

/// Counts of durations by upper bound, in seconds.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06,  0.08,
                                         0.1,   0.25,  0.5,  0.75, 1.0,  2.5,   5.0,
                                         7.5,   10.0,  20.0, 40.0, 80.0, 160.0, 640.0};

  void add(double seconds);
  /// Lines of all buckets, the sum and the count. `labels`: model_name="small".
  std::string text(const std::string& name, const std::string& help,
                   const std::string& labels) const;

 private:
  std::array<std::uint64_t, kBounds.size() + 1> counts_ = {};
  double sum_ = 0;
};

/// What the engine and the server say of themselves.
struct EngineMoment {
  llm::EngineStats stats = {};
  std::size_t pages = 0;
  std::size_t connections = 0;
  std::size_t admitted = 0;
};

/// Counts what goes through the server. Thread-safe.
class Metrics {
 public:
  explicit Metrics(std::string model) : model_(std::move(model)) {}

  /// `path`: one of the server's own, so that clients cannot make up new series.
  void count_reply(const std::string& path, int status);
  void add_first_token(double seconds);
  void add_token_gap(double seconds);
  void add_end(const llm::Reply& reply);

  std::string text(const EngineMoment& moment) const;

 private:
  const std::string model_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::uint64_t> replies_;
  std::array<std::uint64_t, 5> ends_ = {};  // by llm::Finish
  std::uint64_t prompt_tokens_ = 0;
  std::uint64_t cached_tokens_ = 0;
  std::uint64_t generated_tokens_ = 0;
  Histogram first_token_;
  Histogram token_gap_;
  Histogram decoding_;
  Histogram output_token_;
  Histogram whole_;
};

}  // namespace attacca::server
