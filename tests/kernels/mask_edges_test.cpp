// Tests of the edges between masks: the table itself, and the sampler that follows them.
#include "kernels/sample/mask_edges.hpp"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/sample/sample.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using kernels::MaskEdges;
using kernels::Sampled;
using kernels::SamplingParams;

TEST(MaskEdges, an_edge_is_found_by_its_mask_and_its_token_and_by_no_other) {
  std::vector<std::uint64_t> words(MaskEdges::kCount);
  const MaskEdges edges{words.data()};
  EXPECT_EQ(edges.find(0, 0), MaskEdges::kNone);
  edges.put(0, 0, 0);
  EXPECT_EQ(edges.find(0, 0), 0u);
  const std::uint32_t last = MaskEdges::kMostMasks - 1;
  const auto token = static_cast<std::int32_t>(MaskEdges::kMostTokens - 2);
  edges.put(last, token, last);
  EXPECT_EQ(edges.find(last, token), last);
  std::mt19937 random(1);
  for (int at = 0; at < 100000; ++at) {
    const std::uint32_t mask = random() % 1000;
    const auto other = static_cast<std::int32_t>(random() % 200000);
    if (mask == 0 && other == 0) continue;
    ASSERT_EQ(edges.find(mask, other), MaskEdges::kNone) << mask << " " << other;
  }
  edges.clear(MaskEdges::place_of(0, 0));
  EXPECT_EQ(edges.find(0, 0), MaskEdges::kNone);
}

TEST(MaskEdges, one_edge_stands_for_all_plain_tokens_that_have_none_of_their_own) {
  std::vector<std::uint64_t> words(MaskEdges::kCount);
  const std::vector<std::uint32_t> plain = {0, 1u << 5 | 1u << 6};  // tokens 37 and 38
  const MaskEdges edges{words.data(), plain.data()};
  edges.put(3, MaskEdges::kPlainTokens, 3);
  edges.put(3, 38, 4);
  EXPECT_EQ(edges.find(3, 37), 3u);
  EXPECT_EQ(edges.find(3, 38), 4u);
  EXPECT_EQ(edges.find(3, 36), MaskEdges::kNone) << "not plain";
  EXPECT_EQ(edges.find(2, 37), MaskEdges::kNone) << "another mask";
}

class SampleWithEdges : public test::OnEachDevice {
 protected:
  /// Samples one row again and again, with slots that keep their masks. `edges`: from mask, by
  /// token, to mask. Returns the tokens and the masks after them.
  std::vector<Sampled> sample(const std::vector<float>& logits, SamplingParams params,
                              const std::vector<std::uint32_t>& masks,
                              const std::vector<std::array<std::uint32_t, 3>>& edges, int times) {
    std::vector<std::uint64_t> words(kernels::MaskEdges::kCount);
    for (const auto& [from, token, to] : edges)
      kernels::MaskEdges{words.data()}.put(from, static_cast<std::int32_t>(token), to);
    Buffer<float> logit_buffer = buffer(logits);
    const Buffer<std::int32_t> zero = buffer<std::int32_t>({0}), ten = buffer<std::int32_t>({10});
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({1});
    const Buffer<SamplingParams> param_buffer = buffer<SamplingParams>({params});
    const Buffer<std::uint32_t> mask_buffer = buffer(masks);
    const Buffer<std::uint64_t> edge_buffer = buffer(words);
    const Buffer<std::uint16_t> marks = buffer(std::vector<std::uint16_t>(logits.size()));
    const Buffer<Sampled> out = buffer(std::vector<Sampled>(1));
    const kernels::SampleArgs args{.logits = logit_buffer.data(),
                                   .vocabulary = static_cast<std::uint32_t>(logits.size()),
                                   .rows = {count.data(), 1},
                                   .slots = zero.data(),
                                   .positions = ten.data(),
                                   .forced = nullptr,
                                   .params = param_buffer.data(),
                                   .tokens = {.masks = mask_buffer.data(),
                                              .marks = marks.data(),
                                              .edges = {edge_buffer.data()}},
                                   .out = out.data()};
    std::vector<Sampled> sampled;
    for (int time = 0; time < times; ++time) {
      logit_buffer.write(logits);  // a step writes them anew
      stream().kernel(kernels::sample(args), kernels::grid_of(args, is_cuda()), args);
      stream().synchronize();
      sampled.push_back(out.read().front());
    }
    marks_ = marks.read();
    return sampled;
  }

  std::vector<std::uint16_t> marks_;  // after the last sample
};
ATTACCA_ON_EACH_DEVICE(SampleWithEdges);

TEST_P(SampleWithEdges, a_sampled_token_leads_to_the_next_mask_where_the_edge_is_known) {
  std::vector<float> logits(64);
  for (std::size_t token = 0; token < logits.size(); ++token)
    logits[token] = static_cast<float>(token);
  SamplingParams params;
  params.last_position = 1 << 20;
  params.mask = 1;
  params.follows_edges = 1;
  params.frequency_penalty = 0.001f;
  // Masks of two words each: nothing, token 5, token 9 or 40, token 7.
  const std::vector<std::uint32_t> masks = {0, 0, 1u << 5, 0, 1u << 9, 1u << 8, 1u << 7, 0};
  const auto steps = sample(logits, params, masks, {{1, 5, 2}, {2, 9, 1}, {3, 40, 1}}, 4);
  EXPECT_EQ(steps[0].token, 5);
  EXPECT_EQ(steps[0].mask, 2u);
  EXPECT_EQ(steps[1].token, 40);
  EXPECT_EQ(steps[1].mask, SamplingParams::kUnknownMask) << "the edges are of other pairs";
  EXPECT_EQ(steps[2].mask, SamplingParams::kUnknownMask) << "and the next token is in vain";
  EXPECT_EQ(std::accumulate(marks_.begin(), marks_.end(), 0), 2) << "so penalties do not count it";
  params.follows_edges = 0;
  const auto stays = sample(logits, params, masks, {{1, 5, 2}}, 2);
  EXPECT_EQ(stays[1].token, 5);
  EXPECT_EQ(stays[1].mask, 1u) << "a list of allowed tokens stays";
  params.mask = SamplingParams::kAllTokens;
  EXPECT_EQ(sample(logits, params, masks, {}, 1)[0].mask, SamplingParams::kAllTokens);
}

}  // namespace
}  // namespace attacca
