// metrics.cpp: puts counts under the names and labels that /metrics shows.
#include "server/metrics.hpp"

#include <fmt/format.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>

namespace attacca::server {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Metrics of one model.
class ModelPage {
 public:
  ModelPage(MetricsPage& page, const std::string& model) : page_(page), model_(model) {}

  template <class T>
  void gauge(const std::string& name, T value, const std::string& help) {
    add(MetricType::Gauge, name, help, {}).gauge.value = static_cast<double>(value);
  }
  /// `labels`: besides the model's name
  template <class T>
  void counter(const std::string& name, T value, const std::string& help,
               const Labels& labels = {}) {
    add(MetricType::Counter, name, help, labels).counter.value = static_cast<double>(value);
  }
  void histogram(const std::string& name, const Histogram& histogram, const std::string& help) {
    add(MetricType::Histogram, name, help, {}).histogram = histogram.collect();
  }

 private:
  ClientMetric& add(MetricType type, const std::string& name, const std::string& help,
                    const Labels& labels) {
    ClientMetric& metric = page_.family(type, name, help).metric.emplace_back();
    metric.label = {{"model_name", model_}};
    metric.label.insert(metric.label.end(), labels.begin(), labels.end());
    return metric;
  }

  MetricsPage& page_;
  const std::string& model_;
};

void add_engine(ModelPage& page, const ModelMoment::Engine& engine) {
  const llm::EngineStats& stats = engine.stats;
  page.gauge("vllm:num_requests_running", stats.requests_running, "Sequences that have a slot.");
  page.gauge("vllm:num_requests_waiting", stats.requests_waiting, "Sequences that wait for one.");
  const double pages = static_cast<double>(std::max<std::size_t>(engine.pages, 1));
  page.gauge("vllm:kv_cache_usage_perc", static_cast<double>(stats.pages_in_use) / pages,
             "Share of the KV pages that running sequences use; 1 is all.");
  page.counter("vllm:num_preemptions_total", stats.preemptions, "Sequences that lost their slot.");

  page.gauge("attacca_pages", engine.pages, "KV pages.");
  page.gauge("attacca_pages_in_use", stats.pages_in_use, "KV pages of running sequences.");
  page.gauge("attacca_pages_cached", stats.pages_cached,
             "KV pages that only the prefix cache keeps.");
  page.counter("attacca_evictions_total", stats.evictions, "Pages that left the prefix cache.");
  page.counter("attacca_tokens_prefilled_total", stats.tokens_prefilled,
               "Prompt tokens that were computed.");
  page.counter("attacca_tokens_decoded_total", stats.tokens_decoded, "Tokens that were sampled.");
  page.counter("attacca_tokens_voided_total", stats.tokens_voided,
               "Tokens computed for sequences that had ended.");
  page.counter("attacca_tokens_padded_total", stats.tokens_padded,
               "Tokens of graphs that their steps did not use.");
  for (std::size_t mode = 0; mode < llm::kStepModes; ++mode)
    page.counter("attacca_steps_total", stats.steps_by_mode[mode], "Steps by how they ran.",
                 {{"mode", std::string(llm::step_mode_name(static_cast<llm::StepMode>(mode)))}});
  for (std::size_t miss = 1; miss < llm::kMisses; ++miss)
    page.counter("attacca_graph_misses_total", stats.graph_misses[miss],
                 "Steps that had no graph, by reason.",
                 {{"reason", std::string(llm::miss_reason(static_cast<llm::Miss>(miss)))}});
  page.counter("attacca_steps_ahead_total", stats.steps_ahead,
               "Steps that were launched while the one before ran.");
  page.counter("attacca_launches_total", stats.launches, "Launches by the host.");
  page.counter("attacca_masks_followed_total", stats.masks_followed,
               "Tokens of replies with a grammar whose next mask the device had.");
  page.counter("attacca_masks_awaited_total", stats.masks_awaited,
               "Tokens of replies with a grammar whose next mask the host had to send.");
  page.counter("attacca_ring_pauses_total", stats.pauses,
               "Steps of the resident loop put off because the host had not read its news.");
  page.counter("attacca_ring_steps_late_total", stats.steps_late,
               "Steps of the resident loop that had ended when the host read of an earlier one.");
  page.counter("attacca_seconds_busy_total", stats.seconds_busy, "A step was in flight.");
  page.counter("attacca_seconds_idle_total", stats.seconds_idle,
               "Requests were there, and no step was in flight.");
}

}  // namespace

prometheus::MetricFamily& MetricsPage::family(MetricType type, const std::string& name,
                                              const std::string& help) {
  const auto found = std::find_if(families_.begin(), families_.end(),
                                  [&](const auto& family) { return family.name == name; });
  if (found != families_.end()) return *found;
  return families_.emplace_back(prometheus::MetricFamily{name, help, type, {}});
}

std::string MetricsPage::text() const { return prometheus::TextSerializer().Serialize(families_); }

void Histogram::add(double seconds) {
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += seconds;
}

ClientMetric::Histogram Histogram::collect() const {
  ClientMetric::Histogram all{.sample_sum = sum_, .bucket = {}};
  for (std::size_t at = 0; at < counts_.size(); ++at) {
    all.sample_count += counts_[at];
    const bool has_bound = at < kBounds.size();
    all.bucket.push_back(
        {.cumulative_count = all.sample_count, .upper_bound = has_bound ? kBounds[at] : kInfinity});
  }
  return all;
}

Metrics::Metrics(const std::string& model) : model_(model) {}

void Metrics::add_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  first_token_.add(seconds);
}

void Metrics::add_token_gap(double seconds) {
  const std::lock_guard lock(mutex_);
  token_gap_.add(seconds);
}

void Metrics::add_end(const llm::Reply& reply) {
  const std::lock_guard lock(mutex_);
  ++ends_[static_cast<std::size_t>(reply.finish)];
  prompt_tokens_ += reply.prompt_tokens;
  cached_tokens_ += reply.cached_tokens;
  generated_tokens_ += reply.tokens.size();
  whole_.add(reply.seconds);
  waiting_.add(reply.seconds_waiting);
  computing_.add(reply.seconds - reply.seconds_waiting);
  if (reply.tokens.empty()) return;
  prefilling_.add(reply.seconds_to_first_token - reply.seconds_waiting);
  if (reply.tokens.size() < 2) return;
  const double decoding = reply.seconds - reply.seconds_to_first_token;
  decoding_.add(decoding);
  output_token_.add(decoding / static_cast<double>(reply.tokens.size() - 1));
}

void Metrics::add_step(const llm::StepRecord& record) {
  if (record.size == 0) return;
  const std::lock_guard lock(mutex_);
  ++hits_[{record.is_decode, record.size}];
}

void Metrics::add_to(MetricsPage& to, const ModelMoment& moment) const {
  ModelPage page(to, model_);
  page.gauge("attacca_model_loaded", moment.engine ? 1 : 0, "1: the model is loaded.");
  page.gauge("attacca_model_bytes", moment.bytes, "Memory that the loaded model takes.");
  page.gauge("attacca_sequences_admitted", moment.admitted,
             "Sequences that count against --max-waiting: they run or wait.");
  if (moment.engine) add_engine(page, *moment.engine);
  const std::lock_guard lock(mutex_);
  for (const auto& [graph, count] : hits_)
    page.counter(
        "attacca_graph_hits_total", count, "Steps that had a graph, by its size.",
        {{"batch", graph.first ? "decode" : "mixed"}, {"size", fmt::to_string(graph.second)}});
  page.counter("vllm:prompt_tokens_total", prompt_tokens_, "Prompt tokens of ended sequences.");
  page.counter("vllm:generation_tokens_total", generated_tokens_, "Tokens that they got.");
  page.counter("vllm:prefix_cache_queries_total", prompt_tokens_,
               "Prompt tokens looked up in the prefix cache.");
  page.counter("vllm:prefix_cache_hits_total", cached_tokens_, "Prompt tokens found there.");
  for (std::size_t at = 0; at < ends_.size(); ++at)
    page.counter(
        "vllm:request_success_total", ends_[at], "Ended sequences, by reason.",
        {{"finished_reason", std::string(llm::finish_name(static_cast<llm::Finish>(at)))}});
  page.histogram("vllm:time_to_first_token_seconds", first_token_,
                 "From submission to the first token.");
  page.histogram("vllm:inter_token_latency_seconds", token_gap_,
                 "Between two tokens of a sequence.");
  page.histogram("vllm:request_time_per_output_token_seconds", output_token_,
                 "Of a sequence's tokens after the first, each on average.");
  page.histogram("vllm:request_queue_time_seconds", waiting_, "From submission to a slot.");
  page.histogram("vllm:request_prefill_time_seconds", prefilling_,
                 "From the slot to the first token.");
  page.histogram("vllm:request_decode_time_seconds", decoding_,
                 "From the first token to the end, of sequences with more than one.");
  page.histogram("vllm:request_inference_time_seconds", computing_, "From the slot to the end.");
  page.histogram("vllm:e2e_request_latency_seconds", whole_, "From submission to the end.");
}

void HttpMetrics::count_reply(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++replies_[{path, status}];
}

void HttpMetrics::add_to(MetricsPage& page, std::size_t connections) const {
  page.family(MetricType::Gauge, "attacca_connections", "Open connections.")
      .metric.emplace_back()
      .gauge.value = static_cast<double>(connections);
  prometheus::MetricFamily& replies =
      page.family(MetricType::Counter, "attacca_http_replies_total", "Replies by path and status.");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : replies_) {
    ClientMetric& metric = replies.metric.emplace_back();
    metric.label = {{"path", key.first}, {"status", fmt::to_string(key.second)}};
    metric.counter.value = static_cast<double>(count);
  }
}

}  // namespace attacca::server
