// Tests of sampling through the engine: stop tokens, biases, masks, penalties, and logits that are
// not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <algorithm>
#include <cmath>

#include "engine/batches.hpp"
#include "model/small_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using llm::Engine;
using llm::EngineOptions;
using llm::Finish;
using llm::Model;
using llm::Reply;
using llm::Request;
using testing::HasSubstr;
using testing::ThrowsMessage;

class EngineSampling : public test::OnEachDevice {
 protected:
  EngineOptions options() const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    choose_scheduler_of_this_test(options);
    options.context = 128;
    return options;
  }
  Request request(std::size_t count = 12) const { return greedy(expected("llama").prompt, count); }

  const Model model_{fixture("llama")};
};
ATTACCA_ON_EACH_SCHEDULER(EngineSampling);

TEST_P(EngineSampling, any_of_many_stop_tokens_ends_a_reply) {
  Engine engine(model_, options());
  const Tokens tokens = engine.generate(request()).tokens;
  Request stops = request();
  for (std::int32_t other = 0; stops.stop_tokens.size() < 20; ++other)
    if (std::find(tokens.begin(), tokens.end(), other) == tokens.end())
      stops.stop_tokens.push_back(other);
  EXPECT_EQ(engine.generate(stops).tokens, tokens);
  stops.stop_tokens.push_back(tokens[5]);
  const Reply reply = engine.generate(stops);
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[5]);
  EXPECT_EQ(reply.tokens, Tokens(tokens.begin(), first + 1));
  EXPECT_EQ(reply.finish, Finish::stop);
}

TEST_P(EngineSampling, a_hundred_biases_and_a_mask_choose_what_can_come) {
  Engine engine(model_, options());
  const Tokens plain = engine.generate(request()).tokens;
  Request pushed = request();
  for (std::int32_t token = 0; token < 100; ++token)
    pushed.sampling.bias.emplace_back(token, token == 77 ? 500.0f : -500.0f);
  pushed.sampling.bias.emplace_back(77, 100.0f);  // biases of one token add up
  EXPECT_EQ(engine.generate(pushed).tokens, Tokens(12, 77));
  Request masked = request(40);
  masked.sampling.temperature = 2;
  masked.sampling.top_p = 0.95f;
  masked.sampling.allowed = {3, 40, 90};
  EXPECT_THAT(engine.generate(masked).tokens, testing::Each(testing::AnyOf(3, 40, 90)));
  EXPECT_EQ(engine.generate(request()).tokens, plain) << "the slot forgets";
}

TEST_P(EngineSampling, penalties_count_on_the_device_whatever_else_runs) {
  const auto with_penalties = [&](std::uint64_t seed) {
    Request one = request(30);
    one.sampling.temperature = 0.8f;
    one.sampling.seed = seed;
    one.sampling.frequency_penalty = 1.5f;
    one.sampling.repetition_penalty = 1.3f;
    return one;
  };
  EngineOptions few = options();
  few.slots = 2;
  Engine alone(model_, few);
  Engine together(model_, few);
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 7; ++seed) requests.push_back(with_penalties(seed));
  const std::vector<Reply> replies = together.generate(requests);
  for (std::size_t at = 0; at < requests.size(); ++at)
    EXPECT_EQ(replies[at].tokens, alone.generate(requests[at]).tokens) << at;
  together.wait_until_idle();
  EXPECT_GT(together.stats().steps_ahead, 100u) << "no step waits for the one before";
  EXPECT_LT(together.stats().steps - together.stats().steps_ahead, 8u);
}

TEST_P(EngineSampling, a_sequence_that_was_preempted_has_its_penalties_again) {
  EngineOptions short_of_pages = options();
  short_of_pages.slots = 4;
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Request one = request(60);
    one.sampling.temperature = 0.9f;
    one.sampling.seed = seed;
    one.sampling.presence_penalty = 0.7f;
    one.sampling.frequency_penalty = 0.4f;
    one.sampling.bias = {{11, 2.0f}};
    requests.push_back(one);
  }
  Engine roomy(model_, short_of_pages);
  const std::vector<Reply> expected = roomy.generate(requests);
  short_of_pages.pages = 10;
  Engine engine(model_, short_of_pages);
  const std::vector<Reply> replies = engine.generate(requests);
  EXPECT_GT(stats_when_idle(engine).preemptions, 0u);
  for (std::size_t at = 0; at < replies.size(); ++at)
    EXPECT_EQ(replies[at].tokens, expected[at].tokens) << at;
}

TEST_P(EngineSampling, logits_that_are_no_numbers_end_the_request_with_an_error) {
  test::SmallModel small("llama", true, false);
  small.values["output_norm.weight"][5] = std::nanf("");
  const test::TemporaryFolder folder;
  const Model broken(folder.write("broken.gguf", test::text_of(small.writer())).string());
  Engine engine(broken, options());
  const Reply reply = engine.generate(greedy({1, 2, 3}, 9));
  EXPECT_EQ(reply.finish, Finish::failed);
  EXPECT_THAT(reply.error, HasSubstr("not numbers"));
  EXPECT_TRUE(reply.tokens.empty());
  EXPECT_THAT(
      [&] {
        engine.score(Tokens{1, 2, 3, 4});
      },
      ThrowsMessage<Error>(HasSubstr("not numbers")));
  EXPECT_EQ(engine.generate(greedy({1}, 2)).finish, Finish::failed) << "it goes on";
}

TEST_P(EngineSampling, tokens_outside_the_vocabulary_are_named) {
  Engine engine(model_, options());
  Request wrong = request();
  wrong.stop_tokens = {-3};
  EXPECT_THAT([&] { engine.generate(wrong); },
              ThrowsMessage<BadArgument>(HasSubstr("stop tokens have token -3")));
  wrong = request();
  wrong.sampling.allowed = {1 << 20};
  EXPECT_THAT([&] { engine.generate(wrong); },
              ThrowsMessage<BadArgument>(HasSubstr("allowed tokens have token 1048576")));
}

}  // namespace
}  // namespace attacca
