// Tests of overlap, where a step is planned and launched while the one before it runs: tokens,
// texts and endings are the same as without, whatever ends, is preempted or is cancelled meanwhile,
// and nothing is left behind. Without same_bits, replies are compared only if they ran in equal
// batches.
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <stdexcept>
#include <string>
#include <tuple>

#include "engine/fixtures.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace llm;
using engine_tests::expected;
using engine_tests::fixture;
using engine_tests::greedy;
using engine_tests::stats_when_idle;
using Tokens = std::vector<std::int32_t>;

/// Requests of several lengths, cut from the model's prompt.
std::vector<Request> requests_of(const std::string& model, std::size_t count) {
  const Tokens text = expected(model).prompt;
  std::vector<Request> requests;
  for (const std::size_t length : {1, 17, 3, 40, 33, 5, 16, 24})
    requests.push_back(greedy(
        {text.begin(), text.begin() + static_cast<long>(std::min(length, text.size()))}, count));
  return requests;
}

void expect_same(const std::vector<Reply>& got, const std::vector<Reply>& expected_replies) {
  ASSERT_EQ(got.size(), expected_replies.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    const Reply& right = expected_replies[i];
    EXPECT_EQ(got[i].tokens, right.tokens);
    EXPECT_EQ(got[i].text, right.text);
    EXPECT_EQ(got[i].finish, right.finish);
    ASSERT_EQ(got[i].logprobs.size(), right.logprobs.size());
    for (std::size_t at = 0; at < right.logprobs.size(); ++at) {
      EXPECT_EQ(got[i].logprobs[at].token, right.logprobs[at].token);
      EXPECT_EQ(got[i].logprobs[at].logprob, right.logprobs[at].logprob);
      EXPECT_EQ(got[i].logprobs[at].top, right.logprobs[at].top);
    }
  }
}

class Overlap : public test::OnEachDevice {
 protected:
  EngineOptions options(bool overlap) const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = 128;
    options.slots = 4;
    options.step_tokens = 48;
    options.scheduler = llm::Scheduler::host;
    options.overlap = overlap;
    return options;
  }
  /// Checks that replies are the same with and without overlap. Returns the overlapping engine's
  /// statistics.
  template <class Change>
  EngineStats compare(const Model& model, const std::vector<Request>& requests, Change change) {
    EngineOptions with = options(true), without = options(false);
    change(with);
    change(without);
    Engine overlapping(model, with), waiting(model, without);
    const std::vector<Reply> right = waiting.generate(requests);
    expect_same(overlapping.generate(requests), right);
    const EngineStats stats = stats_when_idle(overlapping);
    EXPECT_GT(stats.steps_ahead, 0u);
    EXPECT_LT(stats.steps_ahead, stats.steps);
    EXPECT_GT(stats.seconds_overlapped, 0);
    EXPECT_LE(stats.seconds_overlapped, stats.seconds_busy);
    EXPECT_EQ(overlapping.records().size(), stats.steps) << "nothing is left in flight";
    const EngineStats of_waiting = stats_when_idle(waiting);
    EXPECT_EQ(of_waiting.steps_ahead, 0u);
    EXPECT_EQ(of_waiting.tokens_voided, 0u);
    // Afterwards the engine works as before.
    expect_same(overlapping.generate(requests), waiting.generate(requests));
    return stats;
  }
  EngineStats compare(const Model& model, const std::vector<Request>& requests) {
    return compare(model, requests, [](EngineOptions&) {});
  }
};
ATTACCA_ON_EACH_DEVICE(Overlap);

TEST_P(Overlap, gives_the_same_tokens_and_computes_none_in_vain_where_lengths_end_sequences) {
  for (const std::string& name : engine_tests::kModels) {
    SCOPED_TRACE(name);
    EXPECT_EQ(compare(Model(fixture(name)), requests_of(name, 20)).tokens_voided, 0u);
  }
}

TEST_P(Overlap, gives_the_same_tokens_without_same_bits_where_the_company_is_the_same) {
  if (!is_cuda()) GTEST_SKIP() << "the host computes the same bits in any case";
  for (const char* name : {"llama3-rope", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    std::vector<Request> requests = requests_of(name, 20);
    std::erase_if(requests, [](const Request& request) { return request.tokens.size() > 17; });
    for (std::size_t i = 0; i < requests.size(); ++i) requests[i].max_tokens += 3 * i;
    compare(Model(fixture(name)), requests, [](EngineOptions& o) {
      o.slots = 8;
      o.same_bits = false;
    });
  }
}

TEST_P(Overlap, gives_the_same_tokens_in_every_graph_mode) {
  const Model model(fixture("llama"));
  for (const GraphMode mode :
       {GraphMode::full, GraphMode::piecewise, GraphMode::decode, GraphMode::off}) {
    SCOPED_TRACE(graph_mode_name(mode));
    compare(model, requests_of("llama", 6), [&](EngineOptions& o) { o.graphs = mode; });
  }
}

TEST_P(Overlap, gives_the_same_tokens_for_seeds_penalties_and_log_probabilities) {
  std::vector<Request> requests = requests_of("llama", 12);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling = {.temperature = 1.2f, .top_k = 50, .top_p = 0.9f, .seed = i / 2};
    if (i % 2) requests[i].sampling.repetition_penalty = 1.3f;
    if (i % 3) requests[i].sampling.frequency_penalty = 0.4f;
    if (i % 4 == 0) requests[i].logprobs = 3;
  }
  compare(Model(fixture("llama")), requests);
}

TEST_P(Overlap, gives_the_same_tokens_when_pages_run_out) {
  for (const bool shares : {true, false}) {
    const EngineStats stats =
        compare(Model(fixture("llama")), requests_of("llama", 24), [&](EngineOptions& o) {
          o.pages = 5;
          o.shares_prefixes = shares;
        });
    EXPECT_GT(stats.preemptions, 0u);
  }
}

TEST_P(Overlap, ends_at_an_end_token_though_the_next_step_is_on_its_way) {
  std::vector<Request> requests = requests_of("llama", 40);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    requests[i].ignores_end = false;
    requests[i].sampling = {.temperature = 1, .seed = i};
    requests[i].sampling.bias = {{2, 6.0f}};  // the end token
  }
  const EngineStats stats = compare(Model(fixture("llama")), requests);
  EXPECT_GT(stats.tokens_voided, 0u);
}

TEST_P(Overlap, ends_at_stop_strings_and_where_the_receiver_has_had_enough) {
  const Model model("");
  std::vector<Request> requests;
  for (const char* prompt : {"Once upon a time", "The fox", "One day a girl", "It was dark"}) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = 100;  // texts are read beside the steps, on a busy machine much later
    request.ignores_end = true;
    if (requests.size() % 3 == 0) request.stop = {" was", ","};
    if (requests.size() % 3 == 1)
      request.on_text = [left = 4](std::string_view) mutable { return --left % 4 != 0; };
    requests.push_back(request);
  }
  const EngineStats stats = compare(model, requests);
  EXPECT_GE(stats.tokens_voided, 2u) << "for a text that stopped, and for one that was cancelled";
}

TEST_P(Overlap, scores_the_same_and_needs_no_step_ahead_after_the_last) {
  const Model model(fixture("llama"));
  EngineOptions with = options(true), without = options(false);
  with.prefill_chunk = without.prefill_chunk = 7;
  Engine overlapping(model, with), waiting(model, without);
  const Tokens text = expected("llama").prompt;
  const auto scores = overlapping.score(text), right = waiting.score(text);
  ASSERT_EQ(scores.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i) EXPECT_EQ(scores[i].logprob, right[i].logprob);
  const EngineStats stats = stats_when_idle(overlapping);
  EXPECT_EQ(stats.steps, stats_when_idle(waiting).steps);
  EXPECT_EQ(stats.tokens_voided, 0u);
}

TEST_P(Overlap, a_receiver_that_throws_leaves_nothing_in_flight) {
  const Model model("");
  Engine engine(model, options(true));
  Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 8;
  const Tokens right = engine.generate(request).tokens;
  Request failing = request;
  failing.on_text = [](std::string_view) -> bool { throw std::runtime_error("enough"); };
  EXPECT_THROW(engine.generate(std::vector<Request>{request, failing, request}),
               std::runtime_error);
  EXPECT_EQ(engine.generate(request).tokens, right);
}

}  // namespace
}  // namespace attacca
