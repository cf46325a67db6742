// Tests of sampling: each parameter against a plain computation in doubles, the statistics of
// draws, and that a row's token depends only on its own logits, parameters and position.
#include "kernels/sample/sample.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/sample/host/logit_groups.hpp"
#include "kernels/sample/host/sample.hpp"
#include "kernels/sample/sampling.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Sampled;
using kernels::SamplingParams;
using kernels::TokenBias;
using kernels::TokenMark;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kFarAway = 1 << 30;  // a last position that no test reaches

/// A slot's sampling parameters and their token lists.
struct Ways {
  Ways(const SamplingParams& way) : params(way) {}  // NOLINT: a slot without such tokens
  SamplingParams params;
  std::vector<std::int32_t> stop = {};
  std::vector<TokenBias> bias = {};
  std::vector<std::int32_t> allowed = {};
};

SamplingParams greedy() {
  SamplingParams params;
  params.last_position = kFarAway;
  return params;
}
SamplingParams with_temperature(float temperature) {
  SamplingParams params = greedy();
  params.temperature = temperature;
  params.seed = 7;
  return params;
}

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp((logit - max) / temperature));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& one : p) one /= total;
  return p;
}

std::vector<std::size_t> by_probability(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  return order;
}

/// The probabilities after all parameters, by their textbook definitions.
std::vector<double> expected_probabilities(const std::vector<float>& logits,
                                           const SamplingParams& params) {
  const std::vector<double> all = softmax(logits, params.temperature);
  std::vector<std::size_t> order = by_probability(all);
  if (params.top_k > 0) order.resize(static_cast<std::size_t>(params.top_k));
  double total = 0;
  for (const std::size_t token : order) total += all[token];
  std::vector<double> left(logits.size());
  double sum = 0;
  double reached = 0;
  for (const std::size_t token : order) {
    if (reached < params.top_p * total && all[token] >= params.min_p * all[order[0]])
      sum += left[token] = all[token];
    reached += all[token];
  }
  for (double& one : left) one /= sum;
  return left;
}

class Sample : public OnEachDevice {
 protected:
  struct Row {
    std::vector<float> logits;
    std::int32_t slot = 0;
    std::int32_t position = 10;
    std::int32_t forced = -1;
  };

  std::vector<Sampled> sample(const std::vector<Row>& rows, const std::vector<Ways>& ways,
                              std::vector<std::uint16_t> marks = {}) {
    const std::size_t vocabulary = rows.front().logits.size();
    const Slots slots_here(ways, static_cast<std::uint32_t>(vocabulary), marks);
    std::vector<float> logits;
    std::vector<std::int32_t> slots;
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> forced;
    for (const Row& row : rows) {
      logits.insert(logits.end(), row.logits.begin(), row.logits.end());
      slots.push_back(row.slot);
      positions.push_back(row.position);
      forced.push_back(row.forced);
    }
    const Buffer<float> logit_buffer = buffer(logits);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> forced_buffer = buffer(forced);
    const Buffer<SamplingParams> param_buffer = buffer(slots_here.params);
    const Buffer<std::int32_t> stop = buffer(slots_here.stop);
    const Buffer<TokenBias> bias = buffer(slots_here.bias);
    const Buffer<std::uint32_t> allowed = buffer(slots_here.allowed);
    const Buffer<std::uint16_t> mark_buffer = buffer(slots_here.marks);
    const Buffer<Sampled> out = buffer(std::vector<Sampled>(rows.size()));
    const auto count = static_cast<std::uint32_t>(rows.size());
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const kernels::SampleArgs args{logit_buffer.data(),
                                   static_cast<std::uint32_t>(vocabulary),
                                   {counts.data(), count + 2},
                                   slot_buffer.data(),
                                   position_buffer.data(),
                                   forced_buffer.data(),
                                   param_buffer.data(),
                                   {stop.data(), bias.data(), allowed.data(), mark_buffer.data()},
                                   out.data()};
    stream().kernel(kernels::sample(args), kernels::grid_of(args, is_cuda()), args);
    stream().synchronize();
    marks_ = mark_buffer.read();
    return out.read();
  }
  std::int32_t token(const std::vector<float>& logits, const Ways& ways,
                     std::vector<std::uint16_t> marks = {}) {
    return sample({{logits}}, {ways}, std::move(marks)).front().token;
  }
  /// A row sampled by the host's function itself, without a kernel.
  static Sampled sample_on_host(Row row, const Ways& ways, std::vector<std::uint16_t> marks) {
    Slots slots_here({ways}, static_cast<std::uint32_t>(row.logits.size()), std::move(marks));
    const std::int32_t slot = 0;
    std::uint32_t count = 1;
    Sampled out;
    kernels::host::sample({row.logits.data(),
                           static_cast<std::uint32_t>(row.logits.size()),
                           {&count, 1},
                           &slot,
                           &row.position,
                           nullptr,
                           slots_here.params.data(),
                           {slots_here.stop.data(), slots_here.bias.data(),
                            slots_here.allowed.data(), slots_here.marks.data()},
                           &out},
                          0);
    return out;
  }

  /// Draws at thousands of positions and compares the count of each token with the expected one, by
  /// Pearson's chi-square. The limit is far above its mean, which is the number of degrees of
  /// freedom.
  void expect_distribution(const std::vector<float>& logits, const SamplingParams& params,
                           int draws = 4000) {
    std::vector<Row> rows;
    for (int at = 0; at < draws; ++at) rows.push_back({logits, 0, at});
    std::vector<double> times(logits.size());
    for (const Sampled& sampled : sample(rows, {params}))
      ++times[static_cast<std::size_t>(sampled.token)];
    const std::vector<double> p = expected_probabilities(logits, params);
    double chi_square = 0;
    double degrees = 0;
    for (std::size_t at = 0; at < p.size(); ++at) {
      if (p[at] == 0) {
        ASSERT_EQ(times[at], 0) << "token " << at << " was cut off";
        continue;
      }
      const double expected = p[at] * draws;
      chi_square += (times[at] - expected) * (times[at] - expected) / std::max(expected, 1.0);
      ++degrees;
    }
    EXPECT_LT(chi_square, degrees + 5 * std::sqrt(2 * degrees) + 5) << degrees << " tokens";
  }

  std::vector<std::uint16_t> marks_;  // after the last sample

 private:
  /// The memory of all slots.
  struct Slots {
    Slots(const std::vector<Ways>& ways, std::uint32_t vocabulary,
          std::vector<std::uint16_t> given_marks)
        : marks(std::move(given_marks)) {
      marks.resize(ways.size() * vocabulary);
      const std::size_t words = kernels::mask_words(vocabulary);
      stop.resize(ways.size() * SamplingParams::kMaxStopTokens);
      bias.resize(ways.size() * SamplingParams::kMaxBiases);
      allowed.resize(ways.size() * words);
      for (std::size_t slot = 0; slot < ways.size(); ++slot) {
        const Ways& way = ways[slot];
        params.push_back(way.params);
        params.back().stop_tokens = static_cast<std::uint32_t>(way.stop.size());
        params.back().biases = static_cast<std::uint32_t>(way.bias.size());
        if (!way.allowed.empty()) params.back().mask = static_cast<std::uint32_t>(slot);
        std::copy(
            way.stop.begin(), way.stop.end(),
            stop.begin() + static_cast<std::ptrdiff_t>(slot * SamplingParams::kMaxStopTokens));
        std::copy(way.bias.begin(), way.bias.end(),
                  bias.begin() + static_cast<std::ptrdiff_t>(slot * SamplingParams::kMaxBiases));
        for (const std::int32_t token : way.allowed)
          allowed[slot * words + static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
      }
    }
    std::vector<SamplingParams> params;
    std::vector<std::int32_t> stop;
    std::vector<TokenBias> bias;
    std::vector<std::uint32_t> allowed;
    std::vector<std::uint16_t> marks;
  };
};
ATTACCA_ON_EACH_DEVICE(Sample);

TEST_P(Sample, temperature_zero_takes_the_highest_logit_and_of_equals_the_lowest_id) {
  for (const std::size_t vocabulary : {3, 64, 1000, 5003}) {
    std::vector<float> logits = random_logits(vocabulary, 1);
    const auto highest = std::max_element(logits.begin(), logits.end()) - logits.begin();
    EXPECT_EQ(token(logits, greedy()), highest);
    logits[1] = logits[vocabulary - 1] = 50;
    EXPECT_EQ(token(logits, greedy()), 1);
  }
}

TEST_P(Sample, takes_a_token_that_is_given_and_reports_its_log_probability) {
  const std::vector<float> logits = {0, 1, 2, 3};
  SamplingParams params = greedy();
  params.wants_logprob = 1;
  const std::vector<Sampled> out =
      sample({{logits}, {.logits = logits, .slot = 0, .position = 10, .forced = 1}}, {params});
  EXPECT_EQ(out[0].token, 3);
  EXPECT_EQ(out[1].token, 1);
  EXPECT_NEAR(out[0].logprob - out[1].logprob, 2.0, 1e-6);
}

TEST_P(Sample, logprobs_are_those_of_the_raw_logits) {
  const std::vector<float> logits = random_logits(5003, 2);
  const std::vector<double> p = softmax(logits);
  const std::vector<std::size_t> order = by_probability(p);
  SamplingParams params = greedy();
  params.top_logprobs = 20;
  Ways ways = params;
  ways.bias = {{77, 100}};
  const Sampled sampled = sample({{logits}}, {ways}).front();
  EXPECT_EQ(sampled.token, 77);
  EXPECT_NEAR(sampled.logprob, std::log(p[77]), 2e-6);
  ASSERT_EQ(sampled.tops, 20u);
  for (std::size_t at = 0; at < 20; ++at) {
    EXPECT_EQ(sampled.top_token[at], static_cast<std::int32_t>(order[at]));
    EXPECT_NEAR(sampled.top_logprob[at], std::log(p[order[at]]), 2e-6);
  }
}

TEST_P(Sample, bias_moves_the_choice) {
  Ways ways = greedy();
  ways.bias = {{2, 1.5f}};
  EXPECT_EQ(token({1, 2, 0.75f, 0}, ways), 2);
  // The most biases there can be; each is added to its own token.
  std::vector<float> logits(3 * SamplingParams::kMaxBiases, 0.0f);
  ways.bias.clear();
  for (unsigned at = 0; at < SamplingParams::kMaxBiases; ++at) {
    ways.bias.push_back(
        {static_cast<std::int32_t>(3 * at + 1), 1.0f + static_cast<float>(at % 100)});
    logits[3 * at + 1] = -static_cast<float>(at % 100);
  }
  ways.bias[777].bias += 0.5f;
  EXPECT_EQ(token(logits, ways), 3 * 777 + 1);
}

TEST_P(Sample, a_mask_leaves_only_tokens_that_it_allows) {
  const std::vector<float> logits = random_logits(1000, 11);
  Ways ways = with_temperature(1);
  ways.allowed = {3, 64, 700, 999};
  std::vector<Row> rows;
  for (int at = 0; at < 300; ++at) rows.push_back({logits, at % 3, at});
  Ways few = ways;
  few.params.top_k = 40;
  Ways likely = ways;
  likely.params.top_p = 0.9f;
  for (const Sampled& sampled : sample(rows, {ways, few, likely}))
    ASSERT_THAT(sampled.token, testing::AnyOf(3, 64, 700, 999));
  ways.params.temperature = 0;
  std::int32_t highest = 3;
  for (const std::int32_t other : ways.allowed)
    if (logits[static_cast<std::size_t>(other)] > logits[static_cast<std::size_t>(highest)])
      highest = other;
  EXPECT_EQ(token(logits, ways), highest);
}

TEST_P(Sample, penalties_lower_what_was_seen) {
  const std::uint16_t prompt = TokenMark::kInPrompt;
  SamplingParams params = greedy();
  params.repetition_penalty = 2;
  // The penalty applies to prompt and generated tokens: it divides positive logits and multiplies
  // negative ones.
  EXPECT_EQ(token({4, 3, 2.5f}, params, {prompt, 0, 0}), 1);
  EXPECT_EQ(token({4, 3, 2.5f}, params, {prompt, 1, 0}), 2);
  EXPECT_EQ(token({-1, -1.5f}, params, {prompt, 0}), 1);
  params = greedy();
  params.presence_penalty = 1.5f;
  // The penalty applies to generated tokens only, and once however often they came.
  EXPECT_EQ(token({4, 3, 1}, params, {prompt, 0, 0}), 0);
  EXPECT_EQ(token({4, 3, 1}, params, {9, 0, 0}), 1);
  params = greedy();
  params.frequency_penalty = 0.5f;
  EXPECT_EQ(token({4, 3, 1}, params, {1, 0, 0}), 0);
  EXPECT_EQ(token({4, 3, 1}, params, {3, 0, 0}), 1);
  params.frequency_penalty = -1;
  EXPECT_EQ(token({4, 3, 1}, params, {0, 0, 4}), 2);
}

TEST_P(Sample, the_sampled_token_is_counted_where_a_penalty_is_on) {
  SamplingParams params = greedy();
  params.presence_penalty = 0.25f;
  const std::vector<std::uint16_t> seen{0, 0, TokenMark::kInPrompt, 0, 0, 0};
  const auto first = sample({{{1, 2, 3}, 0}, {{5, 2, 3}, 1}}, {params, greedy()}, seen);
  EXPECT_EQ(first[0].token, 2);
  EXPECT_EQ(marks_, (std::vector<std::uint16_t>{0, 0, TokenMark::kInPrompt + 1, 0, 0, 0}));
  for (const std::uint16_t full :
       {TokenMark::kMostTimes,
        static_cast<std::uint16_t>(TokenMark::kMostTimes + TokenMark::kInPrompt)}) {
    sample({{{1, 2, 30}}}, {params}, {0, 0, full});
    EXPECT_EQ(marks_[2], full);
  }
}

TEST_P(Sample, a_sequence_ends_with_a_stop_token_or_its_last_position) {
  SamplingParams params = greedy();
  params.last_position = 20;
  Ways ways = params;
  for (int other = 100; other < 125; ++other) ways.stop.push_back(other);
  ways.stop.push_back(1);
  const std::vector<float> to_one{0, 5, 0};
  const std::vector<float> to_two{0, 0, 5};
  const auto sampled =
      sample({{to_one, 0, 3}, {to_two, 0, 3}, {to_two, 0, 20}, {to_one, 0, 20}}, {ways});
  EXPECT_EQ(sampled[0].ending, Ending::stop_token);
  EXPECT_EQ(sampled[1].ending, Ending::none);
  EXPECT_EQ(sampled[2].ending, Ending::length);
  EXPECT_EQ(sampled[3].ending, Ending::stop_token);
}

TEST_P(Sample, draws_follow_the_softmax) {
  const std::vector<float> logits = random_logits(40, 3, 1.5f);
  for (const float temperature : {0.5f, 1.0f, 3.0f})
    expect_distribution(logits, with_temperature(temperature));
}

TEST_P(Sample, draws_follow_top_k_top_p_and_min_p) {
  const std::vector<float> logits = random_logits(100, 4, 1.5f);
  SamplingParams params = with_temperature(1.25f);
  params.top_k = 7;
  expect_distribution(logits, params);
  params.top_p = 0.8f;
  expect_distribution(logits, params);
  params.top_k = 0;
  expect_distribution(logits, params);
  params.min_p = 0.2f;
  expect_distribution(logits, params);
  params.top_p = 1;
  expect_distribution(logits, params);
}

TEST_P(Sample, draws_follow_the_parameters_in_a_large_vocabulary) {
  const std::vector<float> logits = random_logits(1500, 6);
  for (const float top_p : {1.0f, 0.9f})
    for (const float min_p : {0.0f, 0.02f})
      for (const std::int32_t top_k : {0, 70}) {
        SamplingParams params = with_temperature(0.8f);
        params.top_p = top_p;
        params.min_p = min_p;
        params.top_k = top_k;
        expect_distribution(logits, params, 300);
      }
}

TEST_P(Sample, cuts_among_equal_logits_keep_the_lowest_ids) {
  const std::vector<float> logits(200, 1.5f);
  SamplingParams params = with_temperature(1);
  const auto highest_of = [&](const SamplingParams& these) {
    std::vector<Row> rows;
    for (int at = 0; at < 300; ++at) rows.push_back({logits, 0, at});
    std::int32_t highest = 0;
    for (const Sampled& sampled : sample(rows, {these})) highest = std::max(highest, sampled.token);
    return highest;
  };
  params.top_k = 5;
  EXPECT_EQ(highest_of(params), 4);
  params.top_k = 0;
  params.top_p = 0.04f;
  EXPECT_EQ(highest_of(params), 7);
  params.top_p = 1e-9f;
  EXPECT_EQ(highest_of(params), 0);
  params.top_k = 1;
  params.top_p = 1;
  EXPECT_EQ(highest_of(params), 0);
}

/// Every option, alone and with others. Each row has a slot of its own, because slots count the
/// tokens they drew.
std::vector<Ways> many_ways(std::uint32_t vocabulary) {
  const auto id = [&](std::uint32_t token) {
    return static_cast<std::int32_t>(token % vocabulary);
  };
  std::vector<Ways> ways;
  for (unsigned at = 0; at < 128; ++at) {
    SamplingParams params =
        with_temperature(at % 8 == 7 ? 0 : 0.3f + 0.2f * static_cast<float>(at % 5));
    params.seed = 1000 + at;
    if (at & 1) params.top_p = at & 4 ? 0.95f : 0.4f;
    if (at & 2) params.top_k = at & 8 ? 40 : at & 64 ? 256 : 700;
    if (at & 4) params.min_p = 0.01f;
    if (at & 8) params.repetition_penalty = 1.2f;
    if (at & 64) params.presence_penalty = 0.5f;
    if (at % 7 == 2) params.frequency_penalty = 0.2f;
    if (at & 16) params.top_logprobs = at & 1 ? 20 : 1;
    if (at % 5 == 0) params.wants_logprob = 1;
    Ways way = params;
    if (at & 32)
      for (std::uint32_t token = vocabulary - 1, left = 50; left > 0; --left) {
        way.bias.insert(way.bias.begin(), {id(token), 0.25f * static_cast<float>(left % 7) - 0.5f});
        if (token < vocabulary / 50 + 1) break;
        token -= vocabulary / 50 + 1;
      }
    if (at % 11 == 3)
      for (std::uint32_t token = 0; token < vocabulary; token += 3)
        way.allowed.push_back(id(token));
    ways.push_back(std::move(way));
  }
  return ways;
}

TEST_P(Sample, every_device_draws_what_the_host_draws_whatever_the_batch) {
  for (const std::uint32_t vocabulary : {16u, 40u, 1000u, 3201u, 32'000u, 256'000u}) {
    const std::vector<Ways> ways = many_ways(vocabulary);
    std::vector<std::uint16_t> marks(ways.size() * vocabulary);
    for (std::size_t at = 0; at < marks.size(); at += 13)
      marks[at] = static_cast<std::uint16_t>(at % 3 == 0 ? at % 5 : TokenMark::kInPrompt + at % 4);
    for (const float spread : {3.0f, 0.05f, 0.0f}) {  // with 0 all logits are equal
      std::vector<std::vector<float>> logits;
      for (unsigned seed = 0; seed < 4; ++seed)
        logits.push_back(random_logits(vocabulary, seed, spread));
      for (const unsigned rows_at_once : {3u, 20u, 40u, 100u}) {
        // On the host the same code runs for any number of rows.
        if (vocabulary > 10'000 && rows_at_once > 3 && !is_cuda()) continue;
        std::vector<Row> rows;
        for (unsigned at = 0; at < rows_at_once; ++at)
          rows.push_back({logits[at % 4],
                          static_cast<std::int32_t>((7 * at + rows_at_once) % ways.size()),
                          static_cast<std::int32_t>(50 + at)});
        const std::vector<Sampled> sampled = sample(rows, ways, marks);
        for (std::size_t at = 0; at < rows.size(); ++at) {
          const auto slot = static_cast<std::size_t>(rows[at].slot);
          const auto first = marks.begin() + static_cast<std::ptrdiff_t>(slot * vocabulary);
          const Sampled expected =
              sample_on_host(rows[at], ways[slot], {first, first + vocabulary});
          const std::string where = fmt::format("vocabulary {}, spread {}, row {} of {}, way {}",
                                                vocabulary, spread, at, rows.size(), rows[at].slot);
          ASSERT_EQ(sampled[at].token, expected.token) << where;
          ASSERT_FLOAT_EQ(sampled[at].logprob, expected.logprob) << where;
          ASSERT_EQ(sampled[at].tops, expected.tops) << where;
          for (std::uint32_t top = 0; top < expected.tops; ++top) {
            ASSERT_EQ(sampled[at].top_token[top], expected.top_token[top]) << where;
            ASSERT_FLOAT_EQ(sampled[at].top_logprob[top], expected.top_logprob[top]) << where;
          }
        }
      }
    }
  }
}

TEST_P(Sample, logits_that_are_no_finite_numbers_end_the_sequence) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> large = random_logits(5000, 3);
  large[4321] = nan;
  SamplingParams with_tops = greedy();
  with_tops.wants_logprob = 1;
  with_tops.top_logprobs = 3;
  for (const SamplingParams& params : {greedy(), with_temperature(1), with_tops})
    for (const std::vector<float>& logits : std::vector<std::vector<float>>{
             {nan, 1, 2, nan}, {0, kInfinity, 2}, {1, -kInfinity}, {nan, nan, nan}, large}) {
      const Sampled sampled = sample({{logits}}, {params}).front();
      EXPECT_EQ(sampled.ending, Ending::not_finite);
      EXPECT_LT(static_cast<std::size_t>(sampled.token), logits.size());
      EXPECT_EQ(sampled.tops, 0u);
      EXPECT_EQ(sampled.logprob, 0);
    }
  EXPECT_EQ(sample({{{1, 3.4e38f, -3.4e38f}}}, {greedy()}).front().ending, Ending::none);
}

TEST_P(Sample, extreme_temperatures_are_no_trouble) {
  EXPECT_EQ(token({1, 5, 2}, with_temperature(1e-42f)), 1);
  EXPECT_LT(token({1, 5, 2}, with_temperature(1e38f)), 3);
}

TEST(SampleGrid, a_vocabulary_beyond_the_largest_is_refused_on_cuda) {
  kernels::SampleArgs args{};
  args.rows.capacity = 1;
  args.vocabulary = kernels::SampleShape::kMaxVocabulary;
  EXPECT_NO_THROW(kernels::grid_of(args, true));
  ++args.vocabulary;
  EXPECT_THROW(kernels::grid_of(args, true), BadArgument);
  EXPECT_NO_THROW(kernels::grid_of(args, false));
}

TEST(Sampling, masses_follow_the_exponential) {
  for (float distance = 0; distance < 27; distance += 0.0137f) {
    const double expected = static_cast<double>(kernels::kFullMass) * std::exp(-1.0 * distance);
    ASSERT_NEAR(static_cast<double>(kernels::mass_at(distance)), expected, 4e-7 * expected + 1)
        << distance;
  }
  EXPECT_EQ(kernels::mass_at(28), 0u);
  EXPECT_EQ(kernels::mass_at(kInfinity), 0u);
}

TEST(Sampling, groups_have_the_masses_of_their_tokens) {
  std::vector<float> logits = random_logits(150, 8, 9);
  logits[70] = -kInfinity;
  std::vector<float> maxima;
  const kernels::host::LogitGroups groups(logits, maxima);
  for (std::size_t group = 0; group < groups.count(); ++group) {
    std::uint64_t memory[kernels::host::LogitGroups::kSize];
    const auto masses = groups.masses(group, 1.5f, memory);
    for (std::size_t at = 0; at < masses.size(); ++at)
      EXPECT_EQ(masses[at], kernels::mass_of(groups.logits(group)[at], groups.max(), 1.5f));
  }
}

TEST(Sampling, random_bits_are_splitmix64) {
  EXPECT_EQ(kernels::random_bits(0, 0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(kernels::random_bits(0, 1), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(kernels::random_bits(0, 2), 0x06c45d188009454fu);
  EXPECT_NE(kernels::random_bits(1, 0), kernels::random_bits(2, 0));
}

TEST(Sampling, the_high_half_of_a_product_is_exact) {
  EXPECT_EQ(kernels::mul_high(~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(kernels::mul_high(1ull << 63, 2), 1u);
  EXPECT_EQ(kernels::mul_high(0x123456789abcdef0, 0xfedcba9876543210), 0x121fa00ad77d7422u);
}

TEST(Sampling, parameters_that_make_no_sense_are_named_with_a_remedy) {
  const auto problem = [](auto change) {
    SamplingParams params;
    change(params);
    return kernels::host::check_sampling(params);
  };
  EXPECT_EQ(problem([](SamplingParams&) {}), "");
  EXPECT_THAT(problem([](auto& p) { p.temperature = -1; }), HasSubstr("temperature -1"));
  EXPECT_THAT(problem([](auto& p) { p.temperature = std::nanf(""); }),
              HasSubstr("temperature nan"));
  EXPECT_THAT(problem([](auto& p) { p.top_k = -3; }), HasSubstr("top_k -3"));
  EXPECT_THAT(problem([](auto& p) { p.top_p = 0; }), HasSubstr("top_p 0"));
  EXPECT_THAT(problem([](auto& p) { p.top_p = 1.5f; }), HasSubstr("top_p 1.5"));
  EXPECT_THAT(problem([](auto& p) { p.min_p = 2; }), HasSubstr("min_p 2"));
  EXPECT_THAT(problem([](auto& p) { p.repetition_penalty = 0; }),
              HasSubstr("repetition_penalty 0 is not from 0.01"));
  EXPECT_THAT(problem([](auto& p) { p.presence_penalty = 101; }),
              HasSubstr("presence_penalty 101"));
  EXPECT_THAT(problem([](auto& p) { p.frequency_penalty = -101; }),
              HasSubstr("frequency_penalty -101"));
  EXPECT_THAT(problem([](auto& p) { p.top_logprobs = 21; }), HasSubstr("top_logprobs 21"));
  EXPECT_THAT(problem([](auto& p) { p.stop_tokens = 129; }), HasSubstr("129 stop tokens"));
  EXPECT_THAT(problem([](auto& p) { p.biases = 1025; }), HasSubstr("1025 tokens"));
  const std::vector<TokenBias> biases{{7, kInfinity}};
  EXPECT_THAT(kernels::host::check_sampling({}, biases), HasSubstr("logit bias inf of token 7"));
}

}  // namespace
}  // namespace attacca::test
