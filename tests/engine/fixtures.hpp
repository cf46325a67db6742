// fixtures.hpp: the small models of tests/engine/fixtures and the results of transformers for them.
// make_models.py writes both.
#pragma once

#include <gtest/gtest.h>
#include <attacca/llm.hpp>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attacca::engine_tests {

/// One of each architecture, with heads of 16 to 48.
inline const std::vector<std::string> kModels = {"llama", "llama3-rope", "mistral-window", "qwen2",
                                                 "qwen3"};
/// Models with larger heads or odd hidden sizes, and prompts of 90 tokens or more.
inline const std::vector<std::string> kShapes = {
    "llama-head64",  "qwen2-head80",    "mistral-head96", "qwen3-head128",
    "llama-head256", "llama-hidden200", "qwen2-hidden104"};
inline std::vector<std::string> all_models() {
  std::vector<std::string> all = kModels;
  all.insert(all.end(), kShapes.begin(), kShapes.end());
  return all;
}

inline std::string fixture(const std::string& name) { return "tests/engine/fixtures/" + name; }

struct Expected {
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> greedy;         // the greedy continuation
  std::vector<double> logprobs;             // of the prompt's tokens but the first
  std::vector<double> norms;                // of each position's logits
  std::vector<std::size_t> probes;          // entries of the vocabulary
  std::vector<std::vector<double>> logits;  // [position][probe]
};

inline Expected expected(const std::string& name) {
  const auto json = nlohmann::json::parse(std::ifstream(fixture(name) + "/expected.json"));
  Expected e;
  json.at("prompt").get_to(e.prompt);
  json.at("greedy").get_to(e.greedy);
  json.at("logprobs").get_to(e.logprobs);
  json.at("norms").get_to(e.norms);
  json.at("probes").get_to(e.probes);
  json.at("logits").get_to(e.logits);
  return e;
}

/// A prompt and its greedy continuation.
inline std::vector<std::int32_t> text_of(const std::string& name) {
  const Expected e = expected(name);
  std::vector<std::int32_t> text = e.prompt;
  text.insert(text.end(), e.greedy.begin(), e.greedy.end());
  return text;
}

/// Suites that are instantiated as "resident" or "relaunch" test the scheduler on the device, in
/// the two forms of its loop, others the host's.
inline void choose_scheduler_of_this_test(llm::EngineOptions& options) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string_view suite = test->test_suite_name();
  const bool relaunches = suite.starts_with("relaunch");
  options.scheduler = llm::Scheduler::host;
  if (!relaunches && !suite.starts_with("resident")) return;
  options.scheduler = llm::Scheduler::resident;
  options.resident_loop =
      relaunches ? llm::ResidentLoop::self_relaunch : llm::ResidentLoop::while_node;
}

/// Statistics lag behind replies until the step ahead of the last one has ended.
inline llm::EngineStats stats_when_idle(const llm::Engine& engine) {
  engine.wait_until_idle();
  return engine.stats();
}

/// A request for exactly `count` greedy tokens; end tokens do not end it.
inline llm::Request greedy(std::vector<std::int32_t> tokens, std::size_t count) {
  llm::Request request;
  request.tokens = std::move(tokens);
  request.max_tokens = count;
  request.ignores_end = true;
  return request;
}

}  // namespace attacca::engine_tests

/// Instantiates a suite derived from OnEachDevice for each device and each scheduler.
#define ATTACCA_ON_EACH_SCHEDULER(suite)                                                        \
  ATTACCA_ON_EACH_DEVICE(suite);                                                                \
  INSTANTIATE_TEST_SUITE_P(resident, suite, testing::ValuesIn(::attacca::test::device_kinds()), \
                           ::attacca::test::device_kind_name);                                  \
  INSTANTIATE_TEST_SUITE_P(relaunch, suite, testing::ValuesIn(::attacca::test::device_kinds()), \
                           ::attacca::test::device_kind_name)
