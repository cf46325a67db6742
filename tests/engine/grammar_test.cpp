// Tests of requests with a grammar: every reply that ends validates, other requests get the tokens
// that they get alone, and what cannot be used is refused when the request is made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <random>
#include <string>
#include <vector>

#include "engine/fixtures.hpp"
#include "grammar/state_table.hpp"
#include "grammar/validator.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using llm::BadGrammar;
using llm::Engine;
using llm::EngineOptions;
using llm::Finish;
using llm::Grammar;
using llm::GrammarKind;
using llm::Model;
using llm::Reply;
using llm::Request;
using llm::Ticket;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Tokens = std::vector<std::int32_t>;

Grammar schema(const std::string& text) { return {GrammarKind::json_schema, text}; }
Grammar regex(const std::string& pattern) { return {GrammarKind::regex, pattern}; }

/// The texts of all but the last are short. In the last the model ends keys if it is urged to.
const std::vector<std::string> kSchemas = {
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 10},
        "age": {"type": "integer", "minimum": 0, "maximum": 120}, "is_tall": {"type": "boolean"}},
        "required": ["name", "age"]})",
    R"({"enum": ["red", "green", 3, null, {"a": [1, 2]}]})",
    R"({"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 10}, "maxItems": 3})",
    R"({"type": "string", "format": "date"})",
    R"({"anyOf": [{"const": "none"}, {"type": "string", "pattern": "^[a-z]{2,6}( [a-z]{1,5})?$"}]})",
    R"({"type": "object", "additionalProperties": {"$ref": "#/$defs/short"}, "maxProperties": 2,
        "$defs": {"short": {"type": "string", "maxLength": 4}}})",
};

class ReplyGrammars : public test::OnEachDevice {
 protected:
  EngineOptions options(unsigned slots = 6) const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = 256;
    options.slots = slots;
    options.step_tokens = 64;
    choose_scheduler_of_this_test(options);
    return options;
  }
  /// Makes the tokens more probable that end strings and objects.
  std::vector<std::pair<std::int32_t, float>> urge_to_end() const {
    return {{model_.tokenize("\"").front(), 12.0f}, {model_.tokenize("}").front(), 12.0f}};
  }
  /// Prompts of random tokens. Those with an even number have the schemas in turn, others none.
  std::vector<Request> mixture(std::size_t count, unsigned seed = 1) const {
    std::mt19937 random(seed);
    std::vector<Request> requests(count);
    for (std::size_t at = 0; at < count; ++at) {
      Request& request = requests[at];
      request.tokens.resize(1 + random() % 40);
      for (std::int32_t& token : request.tokens)
        token = static_cast<std::int32_t>(random() % 1000 + 20);
      request.max_tokens = 160;
      request.sampling = {.temperature = at % 4 < 2 ? 1.0f : 0.0f, .seed = random()};
      if (at % 2 == 0) {
        request.grammar = schema(kSchemas[at / 2 % kSchemas.size()]);
        if (request.grammar.text == kSchemas.back()) request.sampling.bias = urge_to_end();
      } else {
        request.max_tokens = 1 + random() % 120;
      }
    }
    return requests;
  }
  static void expect_valid(const Request& request, const Reply& reply) {
    ASSERT_EQ(reply.finish, Finish::stop) << reply.error << reply.text;
    const auto value = nlohmann::json::parse(reply.text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << reply.text;
    EXPECT_TRUE(test::Validator(nlohmann::json::parse(request.grammar.text)).accepts(value))
        << reply.text << " for " << request.grammar.text;
  }
  static void expect_no_trace(const Engine& engine) {
    engine.wait_until_idle();
    EXPECT_EQ(engine.stats().requests_running, 0u);
    EXPECT_EQ(engine.stats().pages_in_use, 0u);
  }
  bool is_resident() const { return options().scheduler == llm::Scheduler::resident; }
  /// The replies to each request when it runs alone, by the host's scheduler.
  std::vector<Reply> alone(const std::vector<Request>& requests) const {
    EngineOptions by_host = options();
    by_host.scheduler = llm::Scheduler::host;
    by_host.resident_loop = EngineOptions{}.resident_loop;
    Engine engine(model_, by_host);
    std::vector<Reply> replies;
    for (const Request& request : requests) replies.push_back(engine.generate(request));
    return replies;
  }

  const Model model_{""};
};
ATTACCA_ON_EACH_SCHEDULER(ReplyGrammars);

TEST_P(ReplyGrammars, replies_to_random_prompts_validate_and_others_get_the_tokens_they_get_alone) {
  const std::vector<Request> requests = mixture(36);
  const std::vector<Reply> right = alone(requests);
  for (const bool overlap : {true, false}) {
    if (!overlap && is_resident()) break;  // it always runs ahead
    SCOPED_TRACE(overlap ? "a step ahead" : "step by step");
    EngineOptions with = options();
    with.overlap = overlap;
    Engine engine(model_, with);
    const std::vector<Reply> replies = engine.generate(requests);
    for (std::size_t at = 0; at < requests.size(); ++at) {
      SCOPED_TRACE(at);
      EXPECT_EQ(replies[at].tokens, right[at].tokens);
      if (requests[at].grammar.kind != GrammarKind::none) expect_valid(requests[at], replies[at]);
    }
    expect_no_trace(engine);
  }
}

TEST_P(ReplyGrammars, preempted_replies_are_the_same) {
  std::vector<Request> requests = mixture(24, 2);
  // Those with a grammar may end early. These two, the first in line, do not, and want more
  // pages than there are.
  for (const std::size_t at : {1, 3}) {
    requests[at].ignores_end = true;
    requests[at].max_tokens = 160;
    std::swap(requests[at], requests[at / 2]);
  }
  const std::vector<Reply> right = alone(requests);
  EngineOptions scarce = options();
  scarce.pages = 13;  // the longest request may need them all
  Engine engine(model_, scarce);
  const std::vector<Reply> replies = engine.generate(requests);
  EXPECT_GT(stats_when_idle(engine).preemptions, 0u);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    SCOPED_TRACE(at);
    EXPECT_EQ(replies[at].tokens, right[at].tokens);
    if (requests[at].grammar.kind != GrammarKind::none) expect_valid(requests[at], replies[at]);
  }
  expect_no_trace(engine);
}

TEST_P(ReplyGrammars, cancelled_requests_leave_the_others_right) {
  const std::vector<Request> requests = mixture(24, 3);
  const std::vector<Reply> right = alone(requests);
  Engine engine(model_, options(4));
  std::vector<Ticket> tickets;
  for (const Request& request : requests) tickets.push_back(engine.submit(request));
  std::mt19937 random(4);
  for (std::size_t at = 0; at < tickets.size(); at += 3) {
    for (unsigned events = random() % 4; events > 0; --events) tickets[at].next();
    tickets[at].cancel();
  }
  for (std::size_t at = 0; at < tickets.size(); ++at) {
    SCOPED_TRACE(at);
    const Reply reply = tickets[at].wait();
    ASSERT_LE(reply.tokens.size(), right[at].tokens.size());
    EXPECT_TRUE(std::equal(reply.tokens.begin(), reply.tokens.end(), right[at].tokens.begin()));
    if (reply.finish == Finish::cancelled) continue;
    EXPECT_EQ(reply.tokens.size(), right[at].tokens.size());
    if (requests[at].grammar.kind != GrammarKind::none) expect_valid(requests[at], reply);
  }
  expect_no_trace(engine);
}

TEST_P(ReplyGrammars, max_tokens_cuts_a_reply_which_is_the_beginning_of_a_text_then) {
  Engine engine(model_, options());
  const std::string long_string = R"({"type": "string", "minLength": 200})";
  Request request{.prompt = "Once upon a time", .max_tokens = 20};
  request.grammar = schema(long_string);
  const Reply reply = engine.generate(request);
  EXPECT_EQ(reply.finish, Finish::length);
  EXPECT_EQ(reply.tokens.size(), 20u);
  grammar::StateTable table(
      std::make_shared<const grammar::Grammar>(grammar::Grammar::from_schema(long_string)),
      std::make_shared<const grammar::TokenTrie>(std::vector<std::string>{"a", ""}, Tokens{1}));
  EXPECT_NE(table.advance_bytes(table.start(), reply.text), grammar::kDead) << reply.text;
}

TEST_P(ReplyGrammars, an_expression_describes_the_whole_reply) {
  Engine engine(model_, options());
  Request request{.prompt = "Once upon a time", .max_tokens = 40};
  for (const char* pattern : {"attacca!", "(red|green) (fox|hen)", "[0-9]{3}-[a-z]{2,4}", "é?x*"}) {
    request.grammar = regex(pattern);
    const Reply reply = engine.generate(request);
    EXPECT_EQ(reply.finish, Finish::stop) << reply.text;
    EXPECT_TRUE(test::Pcre(pattern, true).matches(reply.text)) << pattern << ": " << reply.text;
  }
  request.grammar = regex("attacca!");
  EXPECT_EQ(engine.generate(request).text, "attacca!");
}

TEST_P(ReplyGrammars, any_object_is_one_without_a_schema) {
  Engine engine(model_, options());
  std::vector<Request> requests = mixture(12, 5);
  std::size_t ended = 0;
  for (Request& request : requests) {
    request.grammar = {GrammarKind::json_object};
    request.sampling.bias = urge_to_end();
  }
  for (const Reply& reply : engine.generate(requests)) {
    EXPECT_THAT(reply.text, testing::StartsWith("{"));
    if (reply.finish != Finish::stop) continue;
    ++ended;
    EXPECT_TRUE(nlohmann::json::parse(reply.text, nullptr, false).is_object()) << reply.text;
  }
  EXPECT_GT(ended, 0u);
}

TEST_P(ReplyGrammars, penalties_biases_logprobs_and_stops_go_with_a_grammar) {
  Engine engine(model_, options());
  Request request{.prompt = "Once upon a time", .max_tokens = 160};
  request.grammar = schema(kSchemas[0]);
  request.sampling = {.temperature = 1.5f,
                      .top_p = 0.9f,
                      .repetition_penalty = 1.3f,
                      .frequency_penalty = 0.5f,
                      .seed = 3,
                      .bias = {{100, 5.0f}, {200, -50.0f}}};
  request.logprobs = 2;
  const Reply reply = engine.generate(request);
  expect_valid(request, reply);
  EXPECT_EQ(reply.logprobs.size(), reply.tokens.size());
  request.stop = {"age"};
  const Reply stopped = engine.generate(request);
  EXPECT_EQ(stopped.finish, Finish::stop);
  EXPECT_EQ(stopped.text, reply.text.substr(0, reply.text.find("age")));
}

TEST_P(ReplyGrammars, what_cannot_be_used_is_refused_when_the_request_is_made) {
  Engine engine(model_, options());
  Request request{.prompt = "Once upon a time"};
  const auto refusal = [&](const Grammar& grammar, const std::string& reason) {
    request.grammar = grammar;
    EXPECT_THAT([&] { engine.submit(request); }, ThrowsMessage<BadGrammar>(HasSubstr(reason)));
  };
  refusal(schema(R"({"properties": {"a": {"not": {}}}})"), "keyword 'not' at '#/properties/a/not'");
  refusal(schema("{"), "not JSON");
  refusal(schema(R"({"enum": []})"), "enum");
  refusal(regex("(a"), "regular expression");
  refusal(regex("a(?=b)"), "lookahead");
  refusal({GrammarKind::none, "{}"}, "use json_schema");
  refusal({static_cast<GrammarKind>(9)}, "grammar kind 9");
  request.ignores_end = true;
  refusal(regex("a"), "do not ignore the end");
  request.ignores_end = false;
  request.sampling.allowed = {1, 2};
  refusal(regex("a"), "list of allowed tokens");
  EXPECT_EQ(engine.stats().steps, 0u);
}

TEST_P(ReplyGrammars, one_that_is_refused_in_a_batch_fails_alone) {
  Engine engine(model_, options());
  std::vector<Request> requests = mixture(3, 6);
  requests[2].grammar = schema(R"({"not": {}})");
  const std::vector<Reply> replies = engine.generate(requests);
  expect_valid(requests[0], replies[0]);
  EXPECT_EQ(replies[2].finish, Finish::failed);
  EXPECT_THAT(replies[2].error, HasSubstr("'#/not'"));
}

TEST_P(ReplyGrammars, a_reply_whose_masks_are_on_the_device_never_sits_out) {
  Engine engine(model_, options());
  Request request{.prompt = "Once upon a time", .max_tokens = 60};
  request.grammar = regex("(red|green) (fox|hen), [0-9]{3}");
  const Reply first = engine.generate(request);
  engine.wait_until_idle();
  const llm::EngineStats learned = engine.stats();
  EXPECT_EQ(learned.masks_followed + learned.masks_awaited, first.tokens.size() - 1);
  EXPECT_GT(learned.masks_awaited, 0u);
  const Reply again = engine.generate(request);
  engine.wait_until_idle();
  const llm::EngineStats now = engine.stats();
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(now.masks_awaited, learned.masks_awaited) << "the device knew the way";
  EXPECT_EQ(now.masks_followed, learned.masks_followed + first.tokens.size() - 1);
  EXPECT_LE(now.steps - learned.steps, first.tokens.size() + 1) << "a step for each token";
  EXPECT_LE(now.tokens_voided - learned.tokens_voided, 1u);
}

TEST_P(ReplyGrammars, the_device_goes_on_in_strings_whatever_plain_tokens_come) {
  Engine engine(model_, options());
  Request request{.prompt = "Once upon a time", .max_tokens = 80};
  request.grammar = schema(R"({"type": "string", "minLength": 1})");
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    request.sampling = {.temperature = 1, .seed = seed};
    const Reply reply = engine.generate(request);
    EXPECT_EQ(reply.tokens, alone({request})[0].tokens);
    if (reply.finish == Finish::stop) expect_valid(request, reply);
  }
  engine.wait_until_idle();
  const llm::EngineStats stats = engine.stats();
  EXPECT_GT(stats.masks_followed, 3 * stats.masks_awaited) << "though most tokens were new";
}

TEST_P(ReplyGrammars, only_keys_that_the_schema_does_not_name_are_left_to_the_host) {
  Engine engine(model_, options());
  Request request{.prompt = "Once upon a time", .max_tokens = 60};
  // Its values are long strings; of its keys the device knows nothing.
  request.grammar = schema(
      R"({"type": "object", "minProperties": 2, "maxProperties": 3,
          "additionalProperties": {"type": "string", "minLength": 20}})");
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    request.sampling = {.temperature = 1, .seed = seed};
    const Reply reply = engine.generate(request);
    EXPECT_EQ(reply.tokens, alone({request})[0].tokens);
    if (reply.finish == Finish::stop) expect_valid(request, reply);
  }
  engine.wait_until_idle();
  const llm::EngineStats stats = engine.stats();
  EXPECT_GT(stats.masks_followed, 0u);
  EXPECT_GT(stats.masks_awaited, 0u) << "its masks depend on the keys it has written";
}

TEST_P(ReplyGrammars, no_key_comes_twice_though_others_have_gone_the_same_way) {
  Engine engine(model_, options());
  // They end keys early, and so would write some twice.
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Request& request = requests.emplace_back();
    request.prompt = "Once";
    request.max_tokens = 100;
    request.sampling = {.temperature = 2, .seed = seed};
    request.sampling.bias = urge_to_end();
    request.grammar = {GrammarKind::json_object};
  }
  const std::vector<Reply> right = alone(requests);
  for (int time = 0; time < 2; ++time) {
    const std::vector<Reply> replies = engine.generate(requests);
    for (std::size_t at = 0; at < requests.size(); ++at) {
      EXPECT_NE(replies[at].finish, Finish::failed) << replies[at].error;
      EXPECT_EQ(replies[at].tokens, right[at].tokens) << at;
    }
  }
  EXPECT_GT(stats_when_idle(engine).masks_followed, 0u);
}

TEST_P(ReplyGrammars, more_masks_than_the_device_keeps_are_sent_again) {
  Engine engine(model_, options());
  std::vector<Request> requests;
  for (int at = 0; at < 16; ++at) {  // each length has states of its own
    Request& request = requests.emplace_back();
    request.prompt = "Once";
    request.max_tokens = 48;
    request.sampling = {.temperature = 1, .seed = static_cast<std::uint64_t>(at)};
    request.grammar = regex("([a-z][0-9]){" + std::to_string(40 + at) + "}");
  }
  const std::vector<Reply> right = alone(requests);
  for (int time = 0; time < 2; ++time) {
    const std::vector<Reply> replies = engine.generate(requests);
    for (std::size_t at = 0; at < requests.size(); ++at)
      EXPECT_EQ(replies[at].tokens, right[at].tokens) << at << replies[at].error;
  }
  std::size_t tokens = 0;
  for (const Reply& reply : right) tokens += reply.tokens.size();
  EXPECT_GT(stats_when_idle(engine).masks_awaited, tokens) << "the second time they were gone";
  expect_no_trace(engine);
}

TEST_P(ReplyGrammars, a_model_without_a_tokenizer_takes_none) {
  const Model bare(fixture("llama"));
  Engine engine(bare, options());
  Request request = greedy({1, 2}, 2);
  request.ignores_end = false;
  request.grammar = regex("a");
  EXPECT_THAT([&] { engine.submit(request); }, ThrowsMessage<BadGrammar>(testing::_));
}

TEST_P(ReplyGrammars, more_grammars_than_are_kept_work) {
  Engine engine(model_, options());
  std::vector<Request> requests(80);
  for (std::size_t at = 0; at < requests.size(); ++at) {
    requests[at].prompt = "Once";
    requests[at].grammar = regex("n" + std::to_string(at % 40));
  }
  const std::vector<Reply> replies = engine.generate(requests);
  for (std::size_t at = 0; at < replies.size(); ++at)
    EXPECT_EQ(replies[at].text, "n" + std::to_string(at % 40)) << replies[at].error;
}

}  // namespace
}  // namespace attacca
