// Tests of the load that `attacca bench serve` makes: lengths, arrivals, traces and prompts. All
// come from a seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <attacca/error.hpp>
#include <cmath>
#include <set>
#include <sstream>

#include "bench/serve/load.hpp"
#include "bench/serve/prompts.hpp"

namespace {

using namespace bench::serve;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<double> arrivals(const LoadOptions& options) {
  RequestSource source(options);
  std::vector<double> times;
  while (const auto planned = source.next()) times.push_back(planned->at);
  return times;
}

LoadOptions at_rate(double rate, Arrival arrival, std::uint64_t requests) {
  LoadOptions options;
  options.rate = rate;
  options.arrival = arrival;
  options.requests = requests;
  return options;
}

template <class Work>
std::string refusal(Work&& work) {
  try {
    work();
  } catch (const attacca::BadArgument& error) {
    return error.what();
  }
  return "accepted";
}

std::size_t words_in(const std::string& text) {
  std::istringstream words(text);
  return static_cast<std::size_t>(std::distance(std::istream_iterator<std::string>(words), {}));
}

TEST(ServeLengths, a_number_a_range_and_a_normal_distribution_are_read) {
  for (const char* text : {"1", "128", "64-256", "7-7", "normal:128,32", "normal:128.5,0"})
    EXPECT_EQ(parse_lengths(text).text(), std::string(text) == "7-7" ? "7" : text);
  EXPECT_EQ(parse_lengths("64-256").longest(), 256u);
  EXPECT_FALSE(parse_lengths("normal:64,1").longest());
}

TEST(ServeLengths, anything_else_is_refused_with_its_words) {
  for (const char* text :
       {"", "0", "-1", "1-", "-", "9-3", "1.5", "1e3x", "nan", "normal:", "normal:5", "normal:0,1",
        "normal:5,-1", "normal:inf,1", "99999999999", "12 "})
    EXPECT_THAT(refusal([&] { parse_lengths(text); }), HasSubstr("64-256 or normal:128,32"))
        << text;
}

TEST(ServeLengths, a_range_is_drawn_to_both_of_its_ends) {
  Random random(1);
  const Lengths lengths = parse_lengths("3-6");
  std::vector<int> counts(8);
  for (int draw = 0; draw < 4000; ++draw) ++counts.at(lengths.draw(random));
  EXPECT_EQ(counts[2] + counts[7], 0);
  for (int length = 3; length <= 6; ++length) EXPECT_NEAR(counts[length], 1000, 150);
}

TEST(ServeLengths, a_normal_distribution_has_its_mean_and_deviation_and_no_empty_text) {
  Random random(2);
  const Lengths lengths = parse_lengths("normal:100,20");
  double sum = 0, squares = 0;
  constexpr int kDraws = 10000;
  for (int draw = 0; draw < kDraws; ++draw) {
    const double length = lengths.draw(random);
    sum += length;
    squares += length * length;
  }
  EXPECT_NEAR(sum / kDraws, 100, 1);
  EXPECT_NEAR(std::sqrt(squares / kDraws - sum * sum / kDraws / kDraws), 20, 1);
  for (int draw = 0; draw < 100; ++draw) EXPECT_GE(parse_lengths("normal:1,50").draw(random), 1u);
}

TEST(ServeArrivals, constant_ones_have_equal_distances_and_bursts_begin_with_each_second) {
  EXPECT_THAT(arrivals(at_rate(4, Arrival::constant, 4)), ElementsAre(0, 0.25, 0.5, 0.75));
  EXPECT_THAT(arrivals(at_rate(2.5, Arrival::burst, 7)), ElementsAre(0, 0, 0, 1, 1, 2, 2));
  EXPECT_THAT(arrivals(at_rate(0.5, Arrival::burst, 3)), ElementsAre(0, 2, 4));
}

TEST(ServeArrivals, poisson_ones_keep_the_rate_and_vary_as_much_as_their_mean) {
  const std::vector<double> times = arrivals(at_rate(50, Arrival::poisson, 20001));
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_NEAR(times.back(), 400, 10);
  double squares = 0;
  for (std::size_t at = 1; at < times.size(); ++at)
    squares += std::pow(times[at] - times[at - 1] - 0.02, 2);
  EXPECT_NEAR(std::sqrt(squares / 20000), 0.02, 0.002);
}

TEST(ServeArrivals, a_seed_gives_the_same_requests_and_another_gives_others) {
  LoadOptions options = at_rate(10, Arrival::poisson, 20);
  const auto first = arrivals(options);
  EXPECT_EQ(first, arrivals(options));
  options.seed = 2;
  EXPECT_NE(first, arrivals(options));
}

TEST(ServeArrivals, no_request_is_due_after_the_seconds_of_a_run) {
  LoadOptions options = at_rate(4, Arrival::constant, 100);
  options.seconds = 1;
  EXPECT_EQ(arrivals(options).size(), 4u);
}

TEST(ServeTrace, its_requests_are_sent_by_their_times) {
  LoadOptions options;
  options.trace = read_trace(
      "\n{\"at\": 2, \"prompt_tokens\": 30, \"output_tokens\": 3}\r\n"
      "{\"at\": 0.5, \"prompt_tokens\": 10, \"output_tokens\": 1, \"x\": 0}");
  EXPECT_TRUE(options.is_open());
  RequestSource source(options);
  const auto first = source.next();
  const auto second = source.next();
  ASSERT_TRUE(first && second && !source.next());
  EXPECT_EQ(std::pair(first->at, first->prompt_tokens), std::pair(0.5, 10u));
  EXPECT_EQ(std::pair(second->index, second->output_tokens), std::pair(std::size_t{1}, 3u));
}

TEST(ServeTrace, a_line_that_is_wrong_is_named) {
  const std::string good = "{\"at\": 0, \"prompt_tokens\": 1, \"output_tokens\": 1}\n";
  EXPECT_THAT(refusal([&] { read_trace(good + "[1]"); }), StartsWith("line 2 is '[1]'"));
  EXPECT_THAT(refusal([&] { read_trace(good + "{\"at\": 1"); }), StartsWith("line 2 is"));
  EXPECT_THAT(refusal([&] { read_trace("{\"at\": 0, \"prompt_tokens\": 1}"); }),
              HasSubstr("line 1: 'output_tokens' must be a number"));
  EXPECT_THAT(
      refusal([&] { read_trace("{\"at\": -1, \"prompt_tokens\": 1, \"output_tokens\": 1}"); }),
      HasSubstr("'at' is -1"));
  EXPECT_THAT(
      refusal([&] { read_trace("{\"at\": 0, \"prompt_tokens\": 0, \"output_tokens\": 1}"); }),
      HasSubstr("'prompt_tokens' is 0"));
  EXPECT_EQ(refusal([] { read_trace("\n \n"); }), "there is no request in it");
}

TEST(ServePrompts, have_as_many_words_as_tokens_unless_the_tokenizer_says_otherwise) {
  EXPECT_EQ(words_in(Prompts(1, 0, {}).make(0, 50)), 50u);
  const TokensOfWords measured = TokensOfWords::through(64, 106, 256, 394);  // 1.5 a word, and 10
  EXPECT_EQ(words_in(Prompts(1, 0, measured).make(0, 160)), 100u);
  EXPECT_EQ(words_in(Prompts(1, 0, measured).make(0, 1)), 1u);
  EXPECT_EQ(TokensOfWords::through(64, 100, 256, 100).per_word, 1);
}

TEST(ServePrompts, begin_with_the_shared_words_and_go_on_differently) {
  const Prompts prompts(7, 20, {});
  const std::string shared = prompts.make(0, 20);
  std::set<std::string> texts;
  for (std::size_t index = 0; index < 50; ++index) {
    const std::string prompt = prompts.make(index, 30);
    EXPECT_THAT(prompt, StartsWith(shared + ' '));
    EXPECT_EQ(words_in(prompt), 30u);
    EXPECT_THAT(shared, StartsWith(prompts.make(index, 10)));
    texts.insert(prompt);
  }
  EXPECT_EQ(texts.size(), 50u);
  EXPECT_EQ(prompts.make(3, 30), Prompts(7, 20, {}).make(3, 30));
  EXPECT_NE(prompts.make(3, 30), Prompts(8, 20, {}).make(3, 30));
}

}  // namespace
