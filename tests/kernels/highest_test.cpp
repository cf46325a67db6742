// Tests of sampling from the highest logits of each rank: the tokens are those of sampling from all
// logits, whatever the parameters, with equal logits and logits that are not finite.
#include "kernels/sample/highest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "model/shard.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::highest_test {
namespace {

using kernels::Highest;
using kernels::Sampled;
using kernels::SamplingParams;

constexpr std::uint32_t kRows = 9;
constexpr std::int32_t kFarAway = 1 << 30;

/// Rows of logits, of which many are equal. The fewer `levels`, the more.
std::vector<float> rows_of_logits(std::uint32_t vocabulary, unsigned seed, float levels = 16) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(std::size_t{kRows} * vocabulary);
  for (float& logit : logits)
    logit = static_cast<float>(static_cast<int>(normal(random) * levels)) / levels;
  return logits;
}

/// Each row gets the parameters of its slot.
std::vector<std::vector<SamplingParams>> ways() {
  std::vector<SamplingParams> all;
  for (const std::int32_t top_k : {0, 1, 2, 31, 32})
    for (const float top_p : {1.0f, 0.7f})
      for (const float min_p : {0.0f, 0.2f}) {
        SamplingParams params;
        params.temperature = top_k == 0 ? 0.0f : 0.9f;
        params.top_k = top_k;
        params.top_p = top_p;
        params.min_p = min_p;
        params.seed = all.size();
        params.last_position = kFarAway;
        all.push_back(params);
      }
  std::vector<std::vector<SamplingParams>> by_row;
  for (std::size_t first = 0; first < all.size(); ++first) {
    by_row.emplace_back();
    for (std::size_t row = 0; row < kRows; ++row)
      by_row.back().push_back(all[(first + 7 * row) % all.size()]);
  }
  return by_row;
}

class HighestLogits : public OnEachDevice {
 protected:
  void set(std::vector<float> logits) {
    logits_ = std::move(logits);
    vocabulary_ = static_cast<std::uint32_t>(logits_.size() / kRows);
  }

  std::vector<Sampled> from_all(const std::vector<SamplingParams>& params) {
    const Buffer<float> logits = buffer(logits_);
    return sampled(params, logits.data(), vocabulary_,
                   [&](Graph& graph, const kernels::SampleArgs& args) {
                     graph.kernel(kernels::sample(args), kernels::grid_of(args, is_cuda()), args);
                   });
  }
  std::vector<Sampled> from_highest(const std::vector<SamplingParams>& params, int ranks) {
    const auto count = static_cast<std::uint32_t>(ranks) * Highest::kCount;
    const Buffer<Highest> parts(device(), std::size_t{kRows} * static_cast<std::size_t>(ranks));
    const Buffer<float> scratch(device(), std::size_t{kRows} * count);
    std::vector<Buffer<float>> own;
    return sampled(
        params, scratch.data(), count, [&](Graph& graph, const kernels::SampleArgs& args) {
          std::vector<Node> found;
          for (int rank = 0; rank < ranks; ++rank) {
            const model::RowRange range = model::rows_of(vocabulary_, rank, ranks);
            own.push_back(buffer(part_of(range)));
            kernels::HighestArgs find{args, range.first,
                                      parts.data() + static_cast<std::size_t>(rank) * kRows};
            find.part.logits = own.back().data();
            find.part.vocabulary = range.count;
            found.push_back(
                graph.kernel(kernels::highest(find), kernels::grid_of(find, is_cuda()), find));
          }
          const kernels::SampleHighestArgs choose{args, parts.data()};
          graph.kernel(kernels::sample_highest(), kernels::grid_of(choose, is_cuda()), choose)
              .after(found);
        });
  }
  void expect_the_same() {
    for (const std::vector<SamplingParams>& params : ways()) {
      const std::vector<Sampled> all = from_all(params);
      for (const int ranks : {1, 2, 3, 4}) {
        if (vocabulary_ < static_cast<std::uint32_t>(ranks) * Highest::kCount) continue;
        const std::vector<Sampled> few = from_highest(params, ranks);
        for (std::uint32_t row = 0; row < kRows; ++row) {
          ASSERT_TRUE(kernels::needs_few(params[row]));
          ASSERT_EQ(few[row].token, all[row].token)
              << "row " << row << ", " << ranks << " ranks, top-k " << params[row].top_k
              << ", top-p " << params[row].top_p << ", min-p " << params[row].min_p;
          ASSERT_EQ(few[row].ending, all[row].ending);
          ASSERT_EQ(few[row].mask, all[row].mask);
          ASSERT_EQ(few[row].tops, 0u);
        }
      }
    }
  }

 private:
  std::vector<float> part_of(const model::RowRange& range) const {
    std::vector<float> part;
    for (std::uint32_t row = 0; row < kRows; ++row) {
      const float* from = logits_.data() + std::size_t{row} * vocabulary_ + range.first;
      part.insert(part.end(), from, from + range.count);
    }
    return part;
  }
  template <class Build>
  std::vector<Sampled> sampled(std::vector<SamplingParams> given, float* logits,
                               std::uint32_t vocabulary, Build build) {
    std::vector<std::int32_t> slot_of(kRows), position_of(kRows), forced_to(kRows, -1);
    // Every slot stops at a token of its own that is often chosen, and one row's token is given.
    std::vector<std::int32_t> stop_at(std::size_t{kRows} * SamplingParams::kMaxStopTokens);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      slot_of[row] = static_cast<std::int32_t>(row);
      position_of[row] = static_cast<std::int32_t>(100 + row);
      const float* const own = logits_.data() + std::size_t{row} * vocabulary_;
      stop_at[std::size_t{row} * SamplingParams::kMaxStopTokens] =
          static_cast<std::int32_t>(std::max_element(own, own + vocabulary_) - own);
      given[row].stop_tokens = 1;
    }
    forced_to[4] = 3;
    const Buffer<std::int32_t> slots = buffer(slot_of), positions = buffer(position_of);
    const Buffer<std::int32_t> forced = buffer(forced_to), stop = buffer(stop_at);
    const Buffer<std::uint32_t> count = buffer(std::vector<std::uint32_t>{kRows});
    const Buffer<SamplingParams> params = buffer(given);
    const Buffer<Sampled> out(device(), kRows);
    Graph graph(device());
    build(graph, kernels::SampleArgs{.logits = logits,
                                     .vocabulary = vocabulary,
                                     .rows = {count.data(), kRows},
                                     .slots = slots.data(),
                                     .positions = positions.data(),
                                     .forced = forced.data(),
                                     .params = params.data(),
                                     .tokens = {.stop = stop.data()},
                                     .out = out.data()});
    run(graph);
    return out.read();
  }

  std::vector<float> logits_;
  std::uint32_t vocabulary_ = 0;
};
ATTACCA_ON_EACH_DEVICE(HighestLogits);

TEST_P(HighestLogits, of_all_ranks_give_the_tokens_of_all_logits) {
  for (const std::uint32_t vocabulary : {40u, 64u, 1000u, 4099u})
    for (unsigned seed = 0; seed < 2; ++seed) {
      set(rows_of_logits(vocabulary, seed));
      expect_the_same();
    }
}

/// So many equal ones that a list of those above a bound cannot hold them.
TEST_P(HighestLogits, that_are_equal_are_taken_by_token) {
  set(rows_of_logits(6000, 3, 0.2f));
  expect_the_same();
  set(std::vector<float>(std::size_t{kRows} * 5000, 1.5f));
  expect_the_same();
}

TEST_P(HighestLogits, that_are_not_finite_end_the_sequence) {
  std::vector<float> logits = rows_of_logits(200, 5);
  logits[1 * 200 + 150] = std::numeric_limits<float>::quiet_NaN();
  logits[2 * 200 + 10] = -std::numeric_limits<float>::infinity();
  logits[4 * 200 + 199] = std::numeric_limits<float>::infinity();
  std::fill_n(logits.begin() + 3 * 200, 200, -std::numeric_limits<float>::infinity());
  logits[5 * 200 + 7] = -0.0f;
  set(logits);
  expect_the_same();
  for (const std::size_t row : {1u, 2u, 3u, 4u})
    EXPECT_EQ(from_highest(ways()[0], 2)[row].ending, Ending::not_finite) << row;
}

TEST(FewLogits, are_enough_without_penalties_masks_and_log_probabilities) {
  const auto needs_few = [](auto change) {
    SamplingParams params;
    change(params);
    return kernels::needs_few(params);
  };
  EXPECT_TRUE(needs_few([](SamplingParams&) {}));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.temperature = 1; }));
  EXPECT_TRUE(needs_few([](SamplingParams& p) { p.temperature = 1, p.top_k = 32; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.temperature = 1, p.top_k = 33; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.wants_logprob = 1; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.top_logprobs = 2; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.biases = 1; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.presence_penalty = 1; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.mask = 0; }));
  EXPECT_FALSE(needs_few([](SamplingParams& p) { p.follows_edges = 1; }));
}

}  // namespace
}  // namespace attacca::test::highest_test
