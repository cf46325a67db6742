// metrics.cpp: writes metrics line by line. A label's value is escaped where it is not our own.
#include "server/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace attacca::server {

namespace {

std::string escaped(const std::string& value) {
  std::string result;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') result += '\\';
    result += letter == '\n' ? ' ' : letter;
  }
  return result;
}

std::string heading(const std::string& name, const char* type, const std::string& help) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

/// A page of metrics that all have the label of the model.
class Page {
 public:
  explicit Page(std::string model) : model_(fmt::format("model_name=\"{}\"", escaped(model))) {}

  const std::string& model() const { return model_; }
  std::string take() { return std::move(text_); }
  void add(const std::string& lines) { text_ += lines; }

  template <class T>
  void one(const char* type, const std::string& name, T value, const std::string& help) {
    begin(type, name, help);
    sample(name, value);
  }
  template <class T>
  void gauge(const std::string& name, T value, const std::string& help) {
    one("gauge", name, value, help);
  }
  template <class T>
  void counter(const std::string& name, T value, const std::string& help) {
    one("counter", name, value, help);
  }
  void begin(const char* type, const std::string& name, const std::string& help) {
    text_ += heading(name, type, help);
  }
  /// `label`: ,mode="decode"
  template <class T>
  void sample(const std::string& name, T value, const std::string& label = {}) {
    text_ += fmt::format("{}{{{}{}}} {}\n", name, model_, label, value);
  }

 private:
  std::string model_;
  std::string text_;
};

void add_engine(Page& page, const EngineMoment& moment) {
  const llm::EngineStats& stats = moment.stats;
  page.gauge("vllm:num_requests_running", stats.requests_running, "Sequences that have a slot.");
  page.gauge("vllm:num_requests_waiting", stats.requests_waiting, "Sequences that wait for one.");
  const double pages = static_cast<double>(std::max<std::size_t>(moment.pages, 1));
  page.gauge("vllm:kv_cache_usage_perc", static_cast<double>(stats.pages_in_use) / pages,
             "Share of the KV pages that running sequences use; 1 is all.");
  page.counter("vllm:num_preemptions_total", stats.preemptions, "Sequences that lost their slot.");

  page.gauge("attacca_connections", moment.connections, "Open connections.");
  page.gauge("attacca_sequences_admitted", moment.admitted,
             "Sequences that count against --max-waiting: they run or wait.");
  page.gauge("attacca_pages", moment.pages, "KV pages.");
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
  page.begin("counter", "attacca_steps_total", "Steps by how they ran.");
  for (std::size_t mode = 0; mode < llm::kStepModes; ++mode)
    page.sample("attacca_steps_total", stats.steps_by_mode[mode],
                fmt::format(",mode=\"{}\"", llm::step_mode_name(static_cast<llm::StepMode>(mode))));
  page.counter("attacca_graph_hits_total", stats.graph_hits, "Steps that had a graph.");
  page.begin("counter", "attacca_graph_misses_total", "Steps that had none, by reason.");
  for (std::size_t miss = 1; miss < llm::kMisses; ++miss)
    page.sample("attacca_graph_misses_total", stats.graph_misses[miss],
                fmt::format(",reason=\"{}\"", llm::miss_reason(static_cast<llm::Miss>(miss))));
  page.counter("attacca_seconds_busy_total", stats.seconds_busy, "A step was in flight.");
  page.counter("attacca_seconds_idle_total", stats.seconds_idle, "No step was in flight.");
}

}  // namespace

void Histogram::add(double seconds) {
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += seconds;
}

std::string Histogram::text(const std::string& name, const std::string& help,
                            const std::string& labels) const {
  std::string text = heading(name, "histogram", help);
  std::uint64_t below = 0;
  for (std::size_t at = 0; at < counts_.size(); ++at) {
    below += counts_[at];
    text += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels,
                        at < kBounds.size() ? fmt::to_string(kBounds[at]) : "+Inf", below);
  }
  return text +
         fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, below);
}

void Metrics::count_reply(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++replies_[{path, status}];
}

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
  if (reply.tokens.size() < 2) return;
  const double decoding = reply.seconds - reply.seconds_to_first_token;
  decoding_.add(decoding);
  output_token_.add(decoding / static_cast<double>(reply.tokens.size() - 1));
}

std::string Metrics::text(const EngineMoment& moment) const {
  Page page(model_);
  add_engine(page, moment);
  const std::lock_guard lock(mutex_);
  page.counter("vllm:prompt_tokens_total", prompt_tokens_, "Prompt tokens of ended sequences.");
  page.counter("vllm:generation_tokens_total", generated_tokens_, "Tokens that they got.");
  page.counter("vllm:prefix_cache_queries_total", prompt_tokens_,
               "Prompt tokens looked up in the prefix cache.");
  page.counter("vllm:prefix_cache_hits_total", cached_tokens_, "Prompt tokens found there.");
  page.begin("counter", "vllm:request_success_total", "Ended sequences, by reason.");
  for (std::size_t at = 0; at < ends_.size(); ++at)
    page.sample(
        "vllm:request_success_total", ends_[at],
        fmt::format(",finished_reason=\"{}\"", llm::finish_name(static_cast<llm::Finish>(at))));
  page.begin("counter", "attacca_http_replies_total", "Replies by path and status.");
  for (const auto& [key, count] : replies_)
    page.sample("attacca_http_replies_total", count,
                fmt::format(",path=\"{}\",status=\"{}\"", key.first, key.second));
  page.add(first_token_.text("vllm:time_to_first_token_seconds",
                             "From submission to the first token.", page.model()));
  page.add(token_gap_.text("vllm:inter_token_latency_seconds", "Between two tokens of a sequence.",
                           page.model()));
  page.add(output_token_.text("vllm:request_time_per_output_token_seconds",
                              "Of a sequence's tokens after the first, each on average.",
                              page.model()));
  page.add(decoding_.text("vllm:request_decode_time_seconds",
                          "From the first token to the end, of sequences with more than one.",
                          page.model()));
  page.add(
      whole_.text("vllm:e2e_request_latency_seconds", "From submission to the end.", page.model()));
  return page.take();
}

}  // namespace attacca::server
