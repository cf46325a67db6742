// Tests of models that are split over ranks of one device: the graphs of all ranks are joined, and
// give the tokens of one rank.
#include <gmock/gmock.h>

#include "engine/fixtures.hpp"
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
};
ATTACCA_ON_EACH_DEVICE(SmallModelRanks);

TEST_P(SmallModelRanks, of_one_device_give_the_tokens_of_transformers_and_of_one_rank) {
  for (const std::string& name : kModels) {
    const Expected e = expected(name);
    const std::vector<llm::Request> requests = requests_for(name);
    Engine whole(Model(fixture(name)), options());
    const auto one = tokens_of(whole, requests);
    with_ranks(
        2, fixture(name), options(),
        [&](Engine& engine) {
          EXPECT_EQ(engine.generate(greedy(e.prompt, e.greedy.size())).tokens, e.greedy) << name;
          EXPECT_EQ(tokens_of(engine, requests), one) << name;
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
