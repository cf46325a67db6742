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
  const std::string text = histogram.text("wait", "How long.", "a=\"b\"");
  EXPECT_THAT(text, testing::StartsWith("# HELP wait How long.\n# TYPE wait histogram\n"
                                        "wait_bucket{a=\"b\",le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("wait_bucket{a=\"b\",le=\"0.25\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("wait_bucket{a=\"b\",le=\"640\"} 3\n"));
  EXPECT_THAT(text, testing::EndsWith("wait_bucket{a=\"b\",le=\"+Inf\"} 4\n"
                                      "wait_sum{a=\"b\"} 1000.551\nwait_count{a=\"b\"} 4\n"));
}

TEST(Metrics, have_the_names_that_dashboards_read) {
  Metrics metrics("sm\"all");
  metrics.count_reply("/v1/completions", 200);
  metrics.count_reply("/v1/completions", 200);
  llm::Reply reply;
  reply.tokens = {1, 2, 3};
  reply.finish = llm::Finish::length;
  reply.prompt_tokens = 7;
  reply.cached_tokens = 4;
  reply.seconds = 0.5;
  metrics.add_end(reply);
  EngineMoment moment{.stats = {.requests_running = 2, .pages_in_use = 25}, .pages = 100};
  moment.stats.graph_misses[1] = 6;
  const std::string text = metrics.text(moment);
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
  EXPECT_THAT(text, HasSubstr("attacca_http_replies_total" + label +
                              ",path=\"/v1/completions\",status=\"200\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("attacca_graph_misses_total" + label + ",reason=\"graphs are off\"} 6\n"));
  EXPECT_THAT(text,
              HasSubstr("vllm:e2e_request_latency_seconds_bucket" + label + ",le=\"0.5\"} 1\n"));
}

}  // namespace
}  // namespace attacca::server
