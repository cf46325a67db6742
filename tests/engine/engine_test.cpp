// Tests of the engine against Hugging Face transformers and against itself: greedy text is the same
// whatever else is in the batch, however prompts are cut and for every page size. Bad requests are
// refused and leave nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <cmath>
#include <string>

#include "engine/batches.hpp"
#include "engine/quantized.hpp"
#include "model/packed_model.hpp"
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

/// The message of a call that must be refused.
template <class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const BadArgument& error) {
    return error.what();
  }
  return "not refused";
}

class EngineOnEachDevice : public test::OnEachDevice {
 protected:
  EngineOptions options() const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    choose_scheduler_of_this_test(options);
    options.context = 128;
    return options;
  }
  /// The values of same_bits that make a difference on this device.
  std::vector<bool> same_bits_or_not() const {
    return is_cuda() ? std::vector<bool>{true, false} : std::vector<bool>{true};
  }
};
ATTACCA_ON_EACH_SCHEDULER(EngineOnEachDevice);

/// With weights in 16 bits a CUDA device holds all rows in bf16. Rounding is coarse in models this
/// small: logits are within 2 % of the size of their row, what is computed of several of them
/// within 3 %, and of two tokens that are almost equally probable the device may take the other.
bool is_rounded(const Engine& engine) { return engine.options().kv_type != llm::KvType::f32; }
double tolerance(const Engine& engine) { return is_rounded(engine) ? 3e-2 : 1e-4; }

TEST_P(EngineOnEachDevice, gives_the_greedy_tokens_of_transformers) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const Expected e = expected(name);
    const Model model(fixture(name));
    for (const bool same_bits : same_bits_or_not()) {
      SCOPED_TRACE(same_bits);
      EngineOptions with = options();
      with.same_bits = same_bits;
      Engine engine(model, with);
      const Reply reply = engine.generate(greedy(e.prompt, e.greedy.size()));
      expect_tokens(model, e.prompt, reply.tokens, e.greedy, is_rounded(engine) ? kNearTie : 0);
      EXPECT_EQ(reply.finish, Finish::length);
      EXPECT_EQ(reply.prompt_tokens, e.prompt.size());
    }
  }
}

TEST_P(EngineOnEachDevice, gives_the_greedy_tokens_of_transformers_for_each_shape_and_cut) {
  for (const std::string& name : kShapes) {
    const Expected e = expected(name);
    const Model model(fixture(name));
    for (const bool same_bits : same_bits_or_not())
      for (const unsigned chunk : {512u, 33u}) {
        SCOPED_TRACE(name + ", chunks of " + std::to_string(chunk) + ", same bits " +
                     std::to_string(same_bits));
        EngineOptions with = options();
        with.context = 256;
        with.same_bits = same_bits;
        with.prefill_chunk = chunk;
        Engine engine(model, with);
        const Reply reply = engine.generate(greedy(e.prompt, e.greedy.size()));
        expect_tokens(model, e.prompt, reply.tokens, e.greedy, is_rounded(engine) ? kNearTie : 0);
      }
  }
}

TEST_P(EngineOnEachDevice, scores_a_text_as_transformers_does) {
  for (const std::string& name : all_models()) {
    SCOPED_TRACE(name);
    const Expected e = expected(name);
    const Model model(fixture(name));
    for (const bool same_bits : same_bits_or_not()) {
      SCOPED_TRACE(same_bits);
      EngineOptions with = options();
      with.same_bits = same_bits;
      with.context = 256;
      Engine engine(model, with);
      const auto scores = engine.score(e.prompt);
      const double most = tolerance(engine);
      ASSERT_EQ(scores.size(), e.logprobs.size());
      for (std::size_t i = 0; i < scores.size(); ++i) {
        EXPECT_EQ(scores[i].token, e.prompt[i + 1]);
        EXPECT_NEAR(scores[i].logprob, e.logprobs[i], most * (1 + std::abs(e.logprobs[i])));
      }
    }
  }
}

TEST_P(EngineOnEachDevice, keys_and_values_in_fp8_take_a_quarter_and_change_scores_little) {
  if (!is_cuda()) GTEST_SKIP() << "the host keeps keys and values in f32";
  const Expected e = expected("qwen3");
  const Model model(fixture("qwen3"));
  EngineOptions with = options();
  with.kv_type = llm::KvType::f32;
  Engine full(model, with);
  with.kv_type = llm::KvType::fp8;
  Engine small(model, with);
  EXPECT_EQ(small.memory().kv_per_token * 4, full.memory().kv_per_token);
  const auto right = full.score(e.prompt), rounded = small.score(e.prompt);
  ASSERT_EQ(rounded.size(), right.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    difference += std::pow(rounded[i].logprob - right[i].logprob, 2);
    size += std::pow(right[i].logprob, 2);
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(std::sqrt(difference / size), 0.1);  // e4m3 rounds to within 1/16
  EXPECT_EQ(small.generate(greedy(e.prompt, 20)).tokens.size(), 20u);
}

TEST_P(EngineOnEachDevice, gives_the_same_tokens_alone_and_in_every_company) {
  expect_same_in_every_batch(Model(fixture("qwen3")), options(), text_of("qwen3"));
}

TEST_P(EngineOnEachDevice, gives_the_same_tokens_for_every_cut_and_page_size) {
  expect_same_for_every_cut_and_page_size(Model(fixture("qwen3")), options(), text_of("qwen3"));
}

TEST_P(EngineOnEachDevice, gives_the_same_tokens_when_pages_run_out) {
  expect_same_when_pages_run_out(Model(fixture("qwen3")), options(), text_of("qwen3"));
}

TEST_P(EngineOnEachDevice, gives_the_same_tokens_whatever_the_type_of_keys_and_values) {
  using llm::KvType;
  const auto expect_same_in_every_way = [&](const char* name, KvType type) {
    SCOPED_TRACE(std::string(name) + ", keys and values: " + llm::kv_type_name(type));
    const Model model(fixture(name));
    EngineOptions with = options();
    with.kv_type = type;
    expect_same_in_every_batch(model, with, text_of(name));
    expect_same_for_every_cut_and_page_size(model, with, text_of(name));
    expect_same_when_pages_run_out(model, with, text_of(name));
  };
  expect_same_in_every_way("llama", KvType::automatic);  // f32, because its weights are
  if (is_cuda())
    for (const KvType type : {KvType::bf16, KvType::f16, KvType::fp8, KvType::f32})
      expect_same_in_every_way("qwen3", type);
}

TEST_P(EngineOnEachDevice, gives_the_same_tokens_with_weights_in_fp8_too) {
  if (!is_cuda()) GTEST_SKIP() << "the host has no weights in fp8";
  const Model model(fixture("qwen3"));
  EngineOptions with = options();
  with.weights = llm::WeightFormat::fp8;
  expect_same_in_every_batch(model, with, text_of("qwen3"));
  expect_same_for_every_cut_and_page_size(model, with, text_of("qwen3"));
  expect_same_when_pages_run_out(model, with, text_of("qwen3"));
}

/// The most nats between two tokens that a GPU without same_bits may exchange when a prompt is cut
/// differently. Kernels for few rows and for many rows add up in different orders, so rows rounded
/// to bf16 differ here and there in their last bit.
constexpr double kRounding = 0.02;

TEST_P(EngineOnEachDevice, gives_the_same_tokens_but_for_near_ties_without_same_bits) {
  const Model model(fixture("qwen3"));
  EngineOptions with = options();
  with.same_bits = false;
  const double tie = is_cuda() ? kRounding : 0;
  expect_same_for_every_cut_and_page_size(model, with, text_of("qwen3"), tie);
  expect_same_when_pages_run_out(model, with, text_of("qwen3"), tie);
}

/// Tests for compute-sanitizer: they run every kernel of a step, for few and for many rows.
class SmallModel : public EngineOnEachDevice {
 protected:
  void expect_answers(const Model& model, llm::WeightFormat weights = {}) const {
    EngineOptions with = options();
    with.mixed_sizes = {16, 64};
    with.weights = weights;
    expect_answers(model, {3, 20, 33}, with);
  }
  void expect_answers(const Model& model, const std::vector<long>& lengths,
                      EngineOptions with) const {
    const Tokens text = text_of("qwen3");
    std::vector<Request> requests;
    for (const long length : lengths)
      requests.push_back(greedy({text.begin(), text.begin() + length}, 3));
    with.slots = 3;
    with.decode_sizes = {3};
    for (const bool same_bits : same_bits_or_not()) {
      with.same_bits = same_bits;
      Engine engine(model, with);
      for (const Reply& reply : engine.generate(requests)) EXPECT_EQ(reply.tokens.size(), 3u);
    }
  }
};
ATTACCA_ON_EACH_DEVICE(SmallModel);

TEST_P(SmallModel, answers_prompts_of_several_lengths_together) {
  expect_answers(Model(fixture("llama")));
}

TEST_P(SmallModel, answers_with_weights_in_bf16) { expect_answers(Model(fixture("qwen3"))); }

TEST_P(SmallModel, answers_with_weights_in_fp8) {
  if (!is_cuda()) GTEST_SKIP() << "the host has no weights in fp8";
  expect_answers(Model(fixture("qwen3")), llm::WeightFormat::fp8);
}

TEST_P(SmallModel, answers_with_quantized_weights) {
  const test::TemporaryFolder folder;
  for (const auto type :
       {kernels::TensorType::q8_0, kernels::TensorType::q4_0, kernels::TensorType::q4_1}) {
    const std::string path = folder.path() / kernels::type_name(type);
    write_quantized("qwen3", type, path + ".gguf");
    expect_answers(Model(path + ".gguf"));
  }
}

/// On a Hopper long prompts are multiplied in tiles of 128 or 256 rows, rotate there without
/// same_bits, and attend with wgmma.
TEST_P(SmallModel, answers_long_prompts_with_weights_in_bf16_and_f16) {
  const test::TemporaryFolder folder;
  for (const auto& [type, kv] : {std::pair(kernels::TensorType::bf16, llm::KvType::bf16),
                                 {kernels::TensorType::f16, llm::KvType::f16}}) {
    const std::string file = test::packed_model([type = type](const std::string&) { return type; },
                                                true, test::tiled_sizes());
    EngineOptions with = options();
    with.mixed_sizes = {16, 192};
    if (is_cuda()) with.kv_type = kv;
    expect_answers(Model(folder.write(std::string(kernels::type_name(type)) + ".gguf", file)),
                   {3, 80, 100}, with);
  }
}

TEST_P(EngineOnEachDevice, draws_by_seed_whatever_else_runs) {
  const Model model(fixture("llama"));
  const Tokens prompt = expected("llama").prompt;
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    Request request = greedy(prompt, 12);
    request.sampling = {.temperature = 1.5f, .top_k = 100, .top_p = 0.9f, .seed = seed / 2};
    request.sampling.repetition_penalty = 1.2f;
    request.sampling.frequency_penalty = 0.5f;
    requests.push_back(request);
  }
  EngineOptions with = options();
  with.slots = 4;
  Engine engine(model, with);
  const std::vector<Reply> replies = engine.generate(requests);
  Engine lonely(model, options());
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(replies[i].tokens, lonely.generate(requests[i]).tokens) << "request " << i;
  EXPECT_EQ(replies[0].tokens, replies[1].tokens);
  EXPECT_NE(replies[0].tokens, replies[2].tokens);
}

TEST_P(EngineOnEachDevice, reports_log_probabilities_of_what_it_generates) {
  const Model model(fixture("llama"));
  Engine engine(model, options());
  Request request = greedy(expected("llama").prompt, 5);
  request.logprobs = 3;
  const Reply reply = engine.generate(request);
  ASSERT_EQ(reply.logprobs.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    const llm::TokenLogprob& entry = reply.logprobs[i];
    EXPECT_EQ(entry.token, reply.tokens[i]);
    ASSERT_EQ(entry.top.size(), 3u);
    EXPECT_EQ(entry.top[0].first, entry.token);  // greedy: the most probable
    EXPECT_FLOAT_EQ(entry.top[0].second, entry.logprob);
    EXPECT_GE(entry.top[0].second, entry.top[1].second);
  }
  Tokens whole = request.tokens;
  whole.insert(whole.end(), reply.tokens.begin(), reply.tokens.end());
  const auto scores = engine.score(whole);
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_FLOAT_EQ(scores[request.tokens.size() - 1 + i].logprob, reply.logprobs[i].logprob);
}

TEST(Engine, ends_at_the_end_token_and_says_so) {
  const Expected e = expected("llama");
  const Model model(fixture("llama"));
  EngineOptions options;
  options.device = Device::host_serial();
  options.context = 128;
  Engine engine(model, options);
  Request request = greedy(e.prompt, 64);
  request.ignores_end = false;
  // The model seldom ends by itself, so a bias makes it end.
  request.sampling.bias = {{2, 1000.0f}};
  const Reply reply = engine.generate(request);
  EXPECT_EQ(reply.tokens, Tokens{2});
  EXPECT_EQ(reply.finish, Finish::stop);
}

TEST(Engine, of_many_requests_one_that_makes_no_sense_fails_alone) {
  const Model model(fixture("llama"));
  EngineOptions options;
  options.device = Device::host_serial();
  options.context = 128;
  options.slots = 2;
  Engine engine(model, options);
  const Tokens prompt = expected("llama").prompt;
  std::vector<Request> requests{greedy(prompt, 9), greedy({}, 3), greedy(prompt, 4)};
  std::vector<std::size_t> ended;
  for (std::size_t at = 0; at < requests.size(); ++at)
    requests[at].on_done = [&, at](const Reply& reply) {
      ended.push_back(at);
      EXPECT_EQ(reply.tokens.size(), at == 0 ? 9u : at == 1 ? 0u : 4u);
    };
  const std::vector<Reply> replies = engine.generate(requests);
  EXPECT_THAT(ended, testing::ElementsAre(1, 2, 0)) << "each as soon as it has ended";
  EXPECT_EQ(replies[1].finish, Finish::failed);
  EXPECT_THAT(replies[1].error, HasSubstr("give one"));
  EXPECT_EQ(replies[0].tokens, engine.generate(greedy(prompt, 9)).tokens);
}

TEST(Engine, refuses_what_makes_no_sense_and_goes_on) {
  const Model model(fixture("llama"));
  EngineOptions options;
  options.device = Device::host_serial();
  options.context = 64;
  Engine engine(model, options);
  const auto refusal_of = [&](Request request) {
    return message_of([&] { engine.generate(request); });
  };
  Request request = greedy({1, 2, 3}, 4);
  EXPECT_THAT(refusal_of({}), HasSubstr("give one"));
  request.tokens = {1, 288};
  EXPECT_THAT(refusal_of(request), HasSubstr("token 288; the vocabulary has 0 to 287"));
  request = greedy(Tokens(64, 5), 4);
  EXPECT_THAT(refusal_of(request), HasSubstr("64 tokens"));
  request = greedy({1}, 0);
  EXPECT_THAT(refusal_of(request), HasSubstr("max_tokens is 0"));
  request = greedy({1}, 4);
  request.sampling.temperature = -1;
  EXPECT_THAT(refusal_of(request), HasSubstr("temperature"));
  request = greedy({1}, 4);
  request.prompt = "text";
  request.tokens.clear();
  EXPECT_THAT(refusal_of(request), HasSubstr("tokenizer"));
  EXPECT_EQ(engine.generate(greedy({1, 2, 3}, 4)).tokens.size(), 4u);
}

TEST(Engine, refuses_options_that_do_not_fit_with_the_numbers) {
  const Model model(fixture("llama"));
  const auto refusal_of = [&](auto change) {
    EngineOptions options;
    options.device = Device::host_serial();
    change(options);
    return message_of([&] { Engine engine(model, options); });
  };
  EXPECT_THAT(refusal_of([](EngineOptions& o) { o.slots = 0; }), HasSubstr("slots is 0"));
  EXPECT_THAT(refusal_of([](EngineOptions& o) { o.page_size = 48; }),
              HasSubstr("page_size = 48; use 16, 32 or 64"));
  EXPECT_THAT(refusal_of([](EngineOptions& o) { o.context = 100000; }),
              HasSubstr("context is 100000; use 0 to 256"));
  EXPECT_THAT(refusal_of([](EngineOptions& o) { o.pages = 1u << 30; }), HasSubstr("MiB"));
  EXPECT_THAT(refusal_of([](EngineOptions& o) { o.memory_fraction = 0; }),
              HasSubstr("memory_fraction"));
}

}  // namespace
}  // namespace attacca
