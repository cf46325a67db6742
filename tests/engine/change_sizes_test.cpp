// Tests of step sizes that change while an engine runs: no request is lost, tokens stay the same,
// and later steps run in graphs of the new sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <functional>
#include <string>
#include <vector>

#include "engine/fixtures.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace llm;
using engine_tests::expected;
using engine_tests::fixture;
using engine_tests::greedy;
using testing::Contains;
using testing::HasSubstr;

class ChangeSizes : public test::OnEachDevice {
 protected:
  EngineOptions options(llm::Scheduler scheduler = llm::Scheduler::host) const {
    EngineOptions options;
    options.scheduler = scheduler;
    options.device = device();
    options.same_bits = true;
    options.context = 128;
    options.slots = 4;
    options.step_tokens = 64;
    options.decode_sizes = {4};
    options.mixed_sizes = {64};
    return options;
  }
  void keeps_tokens_while_sizes_change(llm::Scheduler scheduler) const;
  static std::string refusal(const std::function<void()>& work) {
    try {
      work();
    } catch (const BadArgument& error) {
      return error.what();
    }
    return "nothing was refused";
  }
};
ATTACCA_ON_EACH_DEVICE(ChangeSizes);

void ChangeSizes::keeps_tokens_while_sizes_change(llm::Scheduler scheduler) const {
  const Model model(fixture("llama"));
  const Request request = greedy(expected("llama").prompt, 40);
  const Reply alone = Engine(model, options()).generate(request);
  Engine engine(model, options(scheduler));
  std::vector<Ticket> tickets;
  for (int round = 0; round < 4; ++round) {
    for (int at = 0; at < 3; ++at) tickets.push_back(engine.submit(request));
    const bool is_even = round % 2 == 0;
    const StepSizes sizes = is_even ? StepSizes{{1, 2, 3}, {16, 64}} : StepSizes{{4}, {64}};
    engine.change_sizes(sizes);
    EXPECT_EQ(engine.sizes(), sizes);
  }
  for (Ticket& ticket : tickets) EXPECT_EQ(ticket.wait().tokens, alone.tokens);
  engine.change_sizes({{3}, {32, 64}});
  std::vector<Request> three(3, request);
  for (const Reply& reply : engine.generate(three)) EXPECT_EQ(reply.tokens, alone.tokens);
  engine.wait_until_idle();
  std::vector<unsigned> sizes;
  for (const StepRecord& record : engine.records(20)) sizes.push_back(record.size);
  EXPECT_THAT(sizes, Contains(3u));
  EXPECT_THAT(sizes, testing::Not(Contains(4u)));
  EXPECT_EQ(engine.coverage().front().largest, 64u) << "decodes above the decode sizes";
}

TEST_P(ChangeSizes, requests_that_run_keep_their_tokens_and_get_graphs_of_the_new_sizes) {
  keeps_tokens_while_sizes_change(llm::Scheduler::host);
}

TEST_P(ChangeSizes, the_resident_loop_is_built_anew_and_takes_over_at_a_pause) {
  keeps_tokens_while_sizes_change(llm::Scheduler::resident);
}

TEST_P(ChangeSizes, the_resident_loop_takes_only_sizes_with_a_graph_for_every_step) {
  const Model model(fixture("llama"));
  Engine engine(model, options(llm::Scheduler::resident));
  EXPECT_THAT(refusal([&] {
                engine.change_sizes({{4}, {48}});
              }),
              HasSubstr("needs a graph for every step"));
  EXPECT_EQ(engine.sizes(), (StepSizes{{4}, {64}}));
}

TEST_P(ChangeSizes, what_makes_no_sense_is_refused_and_the_old_sizes_stay) {
  const Model model(fixture("llama"));
  Engine engine(model, options());
  EXPECT_THAT(refusal([&] { engine.change_sizes({{}, {64}}); }), HasSubstr("decode_sizes"));
  EXPECT_THAT(refusal([&] { engine.change_sizes({{5}, {64}}); }), HasSubstr("5"));
  EXPECT_THAT(refusal([&] { engine.change_sizes({{2, 1}, {64}}); }), HasSubstr("ascending"));
  EXPECT_EQ(engine.sizes(), (StepSizes{{4}, {64}}));
  EngineOptions graphless = options();
  graphless.graphs = GraphMode::off;
  Engine without(model, graphless);
  EXPECT_THAT(refusal([&] { without.change_sizes({{4}, {64}}); }), HasSubstr("graphs are full"));
}

}  // namespace
}  // namespace attacca
