// Tests of the text of /metrics: names, labels, buckets that add up.
#include "server/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attacca::server {
namespace {

using testing::HasSubstr;

TEST(Histogram, counts_what_is_at_or_below_each_bound) {
  Histogram histogram;
  for (const double seconds : {0.001, 0.25, 0.3, 1000.0}) histogram.add(seconds);
  MetricsPage page;
  prometheus::MetricFamily& family =
      page.family(prometheus::MetricType::Histogram, "wait", "How long.");
  family.metric.emplace_back().histogram = histogram.collect();
  const std::string text = page.text();
  EXPECT_THAT(text, testing::StartsWith("# HELP wait How long.\n# TYPE wait histogram\n"));
  EXPECT_THAT(text, HasSubstr("wait_count 4\nwait_sum 1000.551\n"));
  EXPECT_THAT(text, HasSubstr("wait_bucket{le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("wait_bucket{le=\"0.25\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("wait_bucket{le=\"640\"} 3\n"));
  EXPECT_THAT(text, testing::EndsWith("wait_bucket{le=\"+Inf\"} 4\n"));
}

TEST(Metrics, have_the_names_that_dashboards_read) {
  Metrics metrics("sm\"all");
  llm::Reply reply;
  reply.tokens = {1, 2, 3};
  reply.finish = llm::Finish::length;
  reply.prompt_tokens = 7;
  reply.cached_tokens = 4;
  reply.seconds_waiting = 0.05;
  reply.seconds_to_first_token = 0.3;
  reply.seconds = 0.5;
  metrics.add_end(reply);
  ModelMoment::Engine engine{.stats = {.requests_running = 2, .pages_in_use = 25}, .pages = 100};
  engine.stats.graph_misses[1] = 6;
  metrics.add_step({.is_decode = true, .size = 8});
  metrics.add_step({.is_decode = true, .size = 8});
  metrics.add_step({.is_decode = false, .size = 0});
  MetricsPage page;
  metrics.add_to(page, {.engine = engine});
  const std::string text = page.text();
  const std::string label = "{model_name=\"sm\\\"all\"";
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:num_requests_running gauge\n"
                              "vllm:num_requests_running" +
                              label + "} 2\n"));
  EXPECT_THAT(text, HasSubstr("vllm:kv_cache_usage_perc" + label + "} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("vllm:prompt_tokens_total" + label + "} 7\n"));
  EXPECT_THAT(text, HasSubstr("vllm:generation_tokens_total" + label + "} 3\n"));
  EXPECT_THAT(text, HasSubstr("vllm:prefix_cache_hits_total" + label + "} 4\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:request_success_total" + label + ",finished_reason=\"length\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("attacca_graph_hits_total" + label + ",batch=\"decode\",size=\"8\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("attacca_graph_misses_total" + label + ",reason=\"graphs are off\"} 6\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:e2e_request_latency_seconds_bucket" + label + ",le=\"0.5\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_queue_time_seconds_sum" + label + "} 0.05\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_prefill_time_seconds_sum" + label + "} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_decode_time_seconds_sum" + label + "} 0.2\n"));
  EXPECT_THAT(text, HasSubstr("vllm:request_inference_time_seconds_sum" + label + "} 0.45\n"));
}

TEST(Metrics, of_several_models_stand_together_under_one_name) {
  const Metrics one("one"), two("two");
  HttpMetrics http;
  http.count_reply("/v1/completions", 200);
  http.count_reply("/v1/completions", 200);
  MetricsPage page;
  one.add_to(page, {.engine = ModelMoment::Engine{.pages = 5}, .admitted = 1});
  two.add_to(page, {});
  http.add_to(page, 3);
  const std::string text = page.text();
  EXPECT_THAT(text, HasSubstr("# TYPE attacca_model_loaded gauge\n"
                              "attacca_model_loaded{model_name=\"one\"} 1\n"
                              "attacca_model_loaded{model_name=\"two\"} 0\n# HELP"));
  EXPECT_THAT(text, HasSubstr("attacca_pages{model_name=\"one\"} 5\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("attacca_pages{model_name=\"two\"}")));
  EXPECT_THAT(text, HasSubstr("\nattacca_connections 3\n"));
  EXPECT_THAT(text,
              HasSubstr("attacca_http_replies_total{path=\"/v1/completions\",status=\"200\"} 2\n"));
}

}  // namespace
}  // namespace attacca::server
