// Tests of models that are split over ranks of one device: the graphs of all ranks are joined, and
// give the tokens of one rank.
#include <gmock/gmock.h>

#include "engine/batches.hpp"
#include "engine/rank_fixtures.hpp"
#include "support/on_each_device.hpp"

namespace attacca::engine_tests {
namespace {

using llm::Engine;
using llm::EngineOptions;
using llm::Model;

class SmallModelRanks : public test::OnEachDevice {
 protected:
  EngineOptions options() const {
    EngineOptions options = small_options();
    options.device = device();
    return options;
  }
  /// On a GPU the parts of a sum are rounded, and ranks add up other parts than one rank does.
  double tie() const { return is_cuda() ? kNearTie : 0; }
};
ATTACCA_ON_EACH_DEVICE(SmallModelRanks);

TEST_P(SmallModelRanks, of_one_device_give_the_tokens_of_transformers_and_of_one_rank) {
  for (const std::string& name : kModels) {
    const Expected e = expected(name);
    const std::vector<llm::Request> requests = requests_for(name);
    const Model model(fixture(name));
    Engine whole(model, options());
    const auto one = tokens_of(whole, requests);
    with_ranks(
        2, fixture(name), options(),
        [&](Engine& engine) {
          SCOPED_TRACE(name);
          const Tokens alone = engine.generate(greedy(e.prompt, e.greedy.size())).tokens;
          expect_tokens(model, e.prompt, alone, e.greedy, tie());
          const std::vector<Tokens> together = tokens_of(engine, requests);
          for (std::size_t at = 0; at < requests.size(); ++at)
            expect_tokens(model, requests[at].tokens, together[at], one[at], tie());
        },
        device());
  }
}

TEST_P(SmallModelRanks, run_in_every_graph_mode_with_and_without_overlap) {
  const std::vector<llm::Request> requests = requests_for("llama");
  Engine whole(Model(fixture("llama")), options());
  const auto one = tokens_of(whole, requests);
  for (const llm::GraphMode mode : {llm::GraphMode::full, llm::GraphMode::piecewise,
                                    llm::GraphMode::decode, llm::GraphMode::off})
    for (const bool overlap : {true, false}) {
      EngineOptions with = options();
      with.graphs = mode;
      with.overlap = overlap;
      with_ranks(
          4, fixture("llama"), with,
          [&](Engine& engine) {
            EXPECT_EQ(tokens_of(engine, requests), one) << llm::graph_mode_name(mode) << overlap;
          },
          device());
    }
}

/// A request with log-probabilities gathers all logits, which are the same bits.
TEST_P(SmallModelRanks, sample_the_same_tokens_from_few_logits_as_from_all) {
  std::vector<llm::Request> few = requests_for("llama");
  few[1].sampling = {.temperature = 1.2f, .top_k = 32, .seed = 1};
  few[2].sampling = {.temperature = 1, .top_k = 12, .top_p = 0.8f, .min_p = 0.02f, .seed = 2};
  std::vector<llm::Request> all = few;
  for (llm::Request& request : all) request.logprobs = 1;
  for (const llm::GraphMode mode : {llm::GraphMode::full, llm::GraphMode::off}) {
    EngineOptions with = options();
    with.graphs = mode;
    with_ranks(
        2, fixture("llama"), with,
        [&](Engine& engine) {
          const std::vector<Tokens> tokens = tokens_of(engine, few);
          const llm::EngineStats stats = stats_when_idle(engine);
          EXPECT_EQ(stats.steps_of_highest, stats.steps);
          EXPECT_EQ(tokens_of(engine, all), tokens) << llm::graph_mode_name(mode);
          EXPECT_EQ(stats_when_idle(engine).steps_of_highest, stats.steps) << "all were gathered";
        },
        device());
  }
}

TEST_P(SmallModelRanks, give_the_same_tokens_with_fused_sums) {
  const std::vector<llm::Request> requests = requests_for("llama");
  std::vector<std::vector<Tokens>> told;
  for (const bool fuses : {false, true})
    for (const llm::GraphMode mode : {llm::GraphMode::full, llm::GraphMode::piecewise}) {
      EngineOptions with = options();
      with.fuses_rank_sums = fuses;
      with.graphs = mode;
      with_ranks(
          4, fixture("llama"), with,
          [&](Engine& engine) { told.push_back(tokens_of(engine, requests)); }, device());
    }
  for (const std::vector<Tokens>& tokens : told) EXPECT_EQ(tokens, told[0]);
}

TEST_P(SmallModelRanks, split_the_embedded_quantized_model) {
  llm::Request request;
  request.prompt = "Once upon a time";
  request.max_tokens = 24;
  Engine whole(Model(""), options());
  const llm::Reply one = whole.generate(request);
  with_ranks(
      2, "", options(), [&](Engine& engine) { EXPECT_EQ(engine.generate(request).text, one.text); },
      device());
}

}  // namespace
}  // namespace attacca::engine_tests
