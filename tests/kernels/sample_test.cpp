// Tests of sampling: each parameter against a plain computation in doubles, the statistics of
// draws, and that a row's token depends on nothing but its own logits, parameters and position.
#include "kernels/sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/host/logit_groups.hpp"
#include "kernels/host/sample.hpp"
#include "kernels/sampling.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::Ending;
using kernels::Sampled;
using kernels::SamplingParams;
using kernels::SeenTokens;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int32_t kFarAway = 1 << 30;  // a last position no test reaches

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

/// The probabilities that the parameters leave, by the textbook.
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

  std::vector<Sampled> sample(const std::vector<Row>& rows,
                              const std::vector<SamplingParams>& params,
                              std::vector<std::uint16_t> seen = {}) {
    const std::size_t vocabulary = rows.front().logits.size();
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
    if (seen.empty()) seen.resize(params.size() * vocabulary);
    const Buffer<float> logit_buffer = buffer(logits);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> forced_buffer = buffer(forced);
    const Buffer<SamplingParams> param_buffer = buffer(params);
    const Buffer<std::uint16_t> seen_buffer = buffer(seen);
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
                                   {seen_buffer.data()},
                                   out.data()};
    stream().kernel(kernels::sample(), kernels::grid_of(args, is_cuda()), args);
    stream().synchronize();
    seen_ = seen_buffer.read();
    return out.read();
  }
  std::int32_t token(const std::vector<float>& logits, const SamplingParams& params,
                     std::vector<std::uint16_t> seen = {}) {
    return sample({{logits}}, {params}, std::move(seen)).front().token;
  }

  /// Draws at thousands of positions and compares how often each token came with what the textbook
  /// expects: Pearson's chi-square, far beyond its mean, which is the number of degrees.
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

  std::vector<std::uint16_t> seen_;  // after the last sample
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
  const std::vector<Sampled> out = sample(
      {{logits}, {.logits = logits, .slot = 0, .position = 10, .forced = 1}}, {SamplingParams{}});
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
  params.biases = 1;
  params.bias_token[0] = 77;
  params.bias[0] = 100;
  const Sampled sampled = sample({{logits}}, {params}).front();
  EXPECT_EQ(sampled.token, 77);
  EXPECT_NEAR(sampled.logprob, std::log(p[77]), 2e-6);
  ASSERT_EQ(sampled.tops, 20u);
  for (std::size_t at = 0; at < 20; ++at) {
    EXPECT_EQ(sampled.top_token[at], static_cast<std::int32_t>(order[at]));
    EXPECT_NEAR(sampled.top_logprob[at], std::log(p[order[at]]), 2e-6);
  }
}

TEST_P(Sample, bias_moves_the_choice_and_ids_outside_the_vocabulary_do_nothing) {
  SamplingParams params = greedy();
  params.biases = 3;
  params.bias_token[0] = 2;
  params.bias[0] = 1.5f;
  params.bias_token[1] = -1;
  params.bias[1] = 100;
  params.bias_token[2] = 4;
  params.bias[2] = 100;
  EXPECT_EQ(token({1, 2, 0.75f, 0}, params), 2);
}

TEST_P(Sample, penalties_lower_what_was_seen) {
  const std::uint16_t prompt = SeenTokens::kInPrompt;
  SamplingParams params = greedy();
  params.repetition_penalty = 2;
  // In the prompt or generated: positive logits are divided, negative ones multiplied.
  EXPECT_EQ(token({4, 3, 2.5f}, params, {prompt, 0, 0}), 1);
  EXPECT_EQ(token({4, 3, 2.5f}, params, {prompt, 1, 0}), 2);
  EXPECT_EQ(token({-1, -1.5f}, params, {prompt, 0}), 1);
  params = greedy();
  params.presence_penalty = 1.5f;
  // Generated only, once however often.
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
  std::vector<std::uint16_t> seen{0, 0, SeenTokens::kInPrompt, 0, 0, 0};
  const auto first = sample({{{1, 2, 3}, 0}, {{5, 2, 3}, 1}}, {params, greedy()}, seen);
  EXPECT_EQ(first[0].token, 2);
  EXPECT_EQ(seen_, (std::vector<std::uint16_t>{0, 0, SeenTokens::kInPrompt + 1, 0, 0, 0}));
  sample({{{1, 2, 30}}}, {params}, {0, 0, 0xffff});
  EXPECT_EQ(seen_[2], 0xffff);
  sample({{{1, 2, 30}}}, {params}, {0, 0, 0x7fff});
  EXPECT_EQ(seen_[2], 0x7fff);
}

TEST_P(Sample, a_sequence_ends_with_a_stop_token_or_its_last_position) {
  SamplingParams params = greedy();
  params.stop_tokens = 2;
  params.stop_token[0] = 9;
  params.stop_token[1] = 1;
  params.last_position = 20;
  const std::vector<float> to_one{0, 5, 0};
  const std::vector<float> to_two{0, 0, 5};
  const auto sampled =
      sample({{to_one, 0, 3}, {to_two, 0, 3}, {to_two, 0, 20}, {to_one, 0, 20}}, {params});
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

TEST_P(Sample, a_draw_is_the_same_in_any_row_and_batch_and_on_every_device) {
  const std::vector<float> logits = random_logits(3000, 5);
  std::vector<SamplingParams> params(4, with_temperature(0.9f));
  params[1].top_p = 0.95f;
  params[2].top_k = 40;
  params[3].min_p = 0.01f;
  params[3].seed = 123456789012345;
  // The tokens the host draws: other devices, with the same arithmetic, draw the same.
  const std::vector<std::int32_t> expected = [&] {
    std::vector<std::int32_t> tokens;
    std::vector<float> row = logits;
    std::uint32_t count = 1;
    for (std::int32_t slot = 0; slot < 4; ++slot) {
      const std::int32_t position = 100 + slot;
      Sampled out;
      kernels::host::sample(
          {row.data(), 3000, {&count, 1}, &slot, &position, nullptr, params.data(), {}, &out}, 0);
      tokens.push_back(out.token);
    }
    return tokens;
  }();
  std::vector<Row> rows;
  for (std::int32_t slot = 3; slot >= 0; --slot) rows.push_back({logits, slot, 100 + slot});
  rows.push_back({logits, 0, 555});
  const auto sampled = sample(rows, params);
  for (std::size_t slot = 0; slot < 4; ++slot)
    EXPECT_EQ(sampled[3 - slot].token, expected[slot]) << "slot " << slot;
}

TEST_P(Sample, a_draw_from_hundreds_of_thousands_of_tokens_is_the_host_s) {
  constexpr std::uint32_t kVocabulary = 300'000;
  std::vector<SamplingParams> params(3, with_temperature(0.7f));
  params[0].top_p = 0.95f;
  params[1].top_k = 1000;
  params[2].top_k = 200'000;
  params[2].top_p = 0.5f;
  std::vector<Row> rows;
  for (const float spread : {3.0f, 0.0f})  // and all alike, which makes the largest sums
    for (std::int32_t slot = 0; slot < 3; ++slot)
      rows.push_back({random_logits(kVocabulary, 9, spread), slot, 40 + slot});
  const auto sampled = sample(rows, params);
  for (std::size_t at = 0; at < rows.size(); ++at) {
    std::uint32_t count = 1;
    Sampled expected;
    kernels::host::sample({rows[at].logits.data(),
                           kVocabulary,
                           {&count, 1},
                           &rows[at].slot,
                           &rows[at].position,
                           nullptr,
                           params.data(),
                           {},
                           &expected},
                          0);
    EXPECT_EQ(sampled[at].token, expected.token) << "row " << at;
  }
}

TEST_P(Sample, logits_that_are_not_numbers_give_a_token_all_the_same) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(token({nan, 1, 2, nan}, greedy()), 2);
  EXPECT_EQ(token({nan, 1, -kInfinity, nan}, with_temperature(1)), 1);
  EXPECT_EQ(token({0, kInfinity, 2}, with_temperature(1)), 1);
  EXPECT_EQ(token({-kInfinity, -kInfinity}, with_temperature(1)), 0);
  EXPECT_EQ(token({nan, nan, nan}, with_temperature(1)), 0);
  EXPECT_EQ(token({1, 5, 2}, with_temperature(1e-42f)), 1);
  EXPECT_LT(token({1, 5, 2}, with_temperature(1e38f)), 3);
}

TEST(SampleGrid, a_vocabulary_that_shared_memory_does_not_hold_is_refused_on_cuda) {
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
    const auto masses = groups.masses(group, 0.7f, memory);
    for (std::size_t at = 0; at < masses.size(); ++at)
      EXPECT_EQ(masses[at], kernels::mass_of(groups.logits(group)[at], groups.max(), 0.7f));
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
    return kernels::host::problem_with(params);
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
              HasSubstr("repetition_penalty 0"));
  EXPECT_THAT(problem([](auto& p) { p.presence_penalty = 101; }),
              HasSubstr("presence_penalty 101"));
  EXPECT_THAT(problem([](auto& p) { p.frequency_penalty = -101; }),
              HasSubstr("frequency_penalty -101"));
  EXPECT_THAT(problem([](auto& p) { p.top_logprobs = 21; }), HasSubstr("top_logprobs 21"));
  EXPECT_THAT(problem([](auto& p) { p.stop_tokens = 9; }), HasSubstr("9 stop tokens"));
  EXPECT_THAT(problem([](auto& p) { p.biases = 33; }), HasSubstr("33 tokens"));
  EXPECT_THAT(problem([](auto& p) {
                p.biases = 1;
                p.bias[0] = kInfinity;
              }),
              HasSubstr("logit bias inf"));
}

}  // namespace
}  // namespace attacca::test
