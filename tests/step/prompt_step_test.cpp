// Tests of whole steps that read a prompt: for each size of head, and hidden sizes that are no
// multiples of 64, they give the logits of the host, however the prompt is cut. On a GPU heads of
// 64 and 128 rotate in the product and attend by the kernels for prompts.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "model/shapes.hpp"
#include "step/step.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::prompt_step_test {
namespace {

using kernels::KvType;
using model::ModelConfig;

constexpr std::uint32_t kPrompt = 150;
constexpr std::uint32_t kPageSize = 16;
constexpr std::uint32_t kPages = kPrompt / kPageSize + 1;

struct Sizes {
  std::uint32_t hidden, heads, kv_heads, head_size, feed_forward;
};
constexpr Sizes kHeads64{192, 4, 2, 64, 320}, kHeads128{256, 2, 1, 128, 384},
    kHeads80{160, 4, 2, 80, 288}, kHeads96{192, 2, 1, 96, 320}, kHeads256{256, 2, 1, 256, 448};

ModelConfig config_of(const Sizes& sizes) {
  ModelConfig config = model::shape_called("llama-1b");
  config.name = "test";
  config.hidden = sizes.hidden;
  config.layers = 2;
  config.heads = sizes.heads;
  config.kv_heads = sizes.kv_heads;
  config.head_size = config.rotary_size = sizes.head_size;
  config.feed_forward = sizes.feed_forward;
  config.vocabulary = 512;
  return config;
}

/// The logits behind a prompt that is read in steps of `cuts` tokens. `names`: gets those of the
/// kernels that read it.
std::vector<float> logits_of(const Device& device, const ModelConfig& config,
                             const std::vector<std::uint32_t>& cuts, bool same_bits = false,
                             std::set<std::string>* names = nullptr) {
  const model::Weights weights(config, device, 1);
  const step::KvPool kv(device, config,
                        {kPages, kPageSize, device.is_cuda() ? KvType::bf16 : KvType::f32});
  const std::uint32_t largest = *std::max_element(cuts.begin(), cuts.end());
  std::vector<std::int32_t> pages(kPages);
  for (std::uint32_t i = 0; i < kPages; ++i) pages[i] = static_cast<std::int32_t>(kPages - 1 - i);
  Buffer<std::int32_t> tokens(device, std::vector<std::int32_t>(largest)),
      positions(device, std::vector<std::int32_t>(largest)),
      gather(device, std::vector<std::int32_t>(1));
  const Buffer<std::int32_t> slots(device, std::vector<std::int32_t>(largest)),
      tables(device, pages);
  Buffer<std::uint32_t> counts(device, std::vector<std::uint32_t>(2));
  const step::StepMemory memory(
      device, config, weights, kv,
      {.largest = {largest, 1}, .slots = 1, .table_stride = kPages, .same_bits = same_bits},
      {.tokens = tokens.data(),
       .positions = positions.data(),
       .slots = slots.data(),
       .token_count = counts.data(),
       .gather = gather.data(),
       .row_count = counts.data() + 1,
       .tables = tables.data()});
  const Stream stream(device);
  std::uint32_t position = 0;
  for (const std::uint32_t cut : cuts) {
    std::vector<std::int32_t> words(largest), places(largest);
    for (std::uint32_t i = 0; i < cut; ++i, ++position) {
      words[i] = static_cast<std::int32_t>((position * 7919 + 5) % config.vocabulary);
      places[i] = static_cast<std::int32_t>(position);
    }
    tokens.write(words);
    positions.write(places);
    gather.write(std::vector<std::int32_t>{static_cast<std::int32_t>(cut) - 1});
    counts.write(std::vector<std::uint32_t>{cut, 1});
    Graph graph(device, "step");
    const step::Chain chain = step::emit_logits(memory, {cut, 1, cut == 1});
    chain.append_to(graph);
    if (names)
      for (const step::Link& link : chain.links()) names->insert(link.kernel->name);
    Exec exec = graph.instantiate();
    exec.launch(stream);
    stream.synchronize();
  }
  const Buffer<float> seen(device, config.vocabulary, Visibility::shared);
  stream.copy(const_cast<float*>(seen.data()), static_cast<const float*>(memory.logits()),
              config.vocabulary * sizeof(float));
  stream.synchronize();
  return {seen.data(), seen.data() + config.vocabulary};
}

/// The largest difference as a share of the largest logit.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
  }
  return most / largest;
}

class SmallPromptStep : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallPromptStep);

TEST_P(SmallPromptStep, gives_the_logits_of_the_host_for_each_size_of_head_however_it_is_cut) {
  constexpr double kClose = 0.03;  // activations, keys and values are rounded to bf16 on a GPU
  for (const Sizes& sizes : {kHeads64, kHeads128, kHeads80, kHeads96, kHeads256}) {
    SCOPED_TRACE(sizes.head_size);
    const ModelConfig config = config_of(sizes);
    const std::vector<float> expected =
        logits_of(Device::host(), config, std::vector<std::uint32_t>(kPrompt, 1));
    for (const bool same_bits : {false, true})
      for (const std::vector<std::uint32_t>& cuts :
           {std::vector<std::uint32_t>{kPrompt}, {70, 79, 1}, {16, 134}}) {
        const std::vector<float> logits = logits_of(device(), config, cuts, same_bits);
        EXPECT_LT(distance(logits, expected), kClose)
            << cuts.size() << " steps" << (same_bits ? ", the same bits" : "");
      }
  }
}

TEST_P(SmallPromptStep, is_read_on_a_hopper_by_the_fastest_kernels_that_take_its_sizes) {
  if (!is_cuda() || device().compute_capability() != 90) GTEST_SKIP() << "no Hopper";
  using testing::AllOf;
  using testing::Contains;
  using testing::IsSupersetOf;
  using testing::Not;
  const auto names_of = [&](const Sizes& sizes, bool same_bits) {
    std::set<std::string> names;
    logits_of(device(), config_of(sizes), {kPrompt}, same_bits, &names);
    return names;
  };
  for (const Sizes& sizes : {kHeads64, kHeads128}) {
    SCOPED_TRACE(sizes.head_size);
    EXPECT_THAT(names_of(sizes, false),
                AllOf(IsSupersetOf({"rope_rows", "rotating_tiled_linear", "tiled_linear",
                                    "prompt_attention", "mixed_attention"}),
                      Not(Contains("rope_store"))));
    EXPECT_THAT(names_of(sizes, true),
                AllOf(IsSupersetOf({"rope_store", "tiled_linear", "prompt_attention"}),
                      Not(Contains("rotating_tiled_linear"))));
  }
  for (const bool same_bits : {false, true}) {
    EXPECT_THAT(names_of(kHeads80, same_bits),
                AllOf(Contains("rope_store"), Not(Contains("tiled_linear")),
                      Not(Contains("prompt_attention"))));
    for (const Sizes& sizes : {kHeads96, kHeads256})
      EXPECT_THAT(names_of(sizes, same_bits), AllOf(IsSupersetOf({"rope_store", "tiled_linear"}),
                                                    Not(Contains("prompt_attention"))));
  }
}

TEST_P(SmallPromptStep, with_the_same_bits_has_them_for_every_cut_of_the_prompt) {
  for (const Sizes& sizes : {kHeads64, kHeads128}) {
    SCOPED_TRACE(sizes.head_size);
    const ModelConfig config = config_of(sizes);
    const std::vector<float> whole = logits_of(device(), config, {kPrompt}, true);
    EXPECT_EQ(logits_of(device(), config, {70, 79, 1}, true), whole);
    EXPECT_EQ(logits_of(device(), config, std::vector<std::uint32_t>(kPrompt, 1), true), whole);
  }
}

}  // namespace
}  // namespace attacca::test::prompt_step_test
