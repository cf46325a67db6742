// Tests of models with quantized weights, which every device uses as they are: tokens equal the
// host's, log-probabilities those of the same weights in float32, and tokens are the same whatever
// else is in the batch. SmolLM2 is tested if `attacca pull smollm2` has fetched it.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/batches.hpp"
#include "engine/quantized.hpp"
#include "model/cache.hpp"
#include "model/dequantized.hpp"
#include "model/packed_model.hpp"
#include "model/small_model.hpp"
#include "support/on_each_device.hpp"

namespace attacca {
namespace {

using namespace engine_tests;
using kernels::TensorType;
using llm::Engine;
using llm::EngineOptions;
using llm::Model;
using llm::Reply;
using llm::Request;

constexpr TensorType kTypes[] = {TensorType::q8_0, TensorType::q4_0, TensorType::q4_1};

const char kStory[] =
    "Once upon a time there was a fox that had no lantern, and it went into the wood to look for "
    "one, for the nights were long and dark and cold. By the old bridge it met a hedgehog with a "
    "basket of apples. \"Have you seen a light?\" asked the fox. \"I have seen the moon in the "
    "river,\" said the hedgehog, \"and a candle in the mill.\" So they went down the hill "
    "together, "
    "and the wind blew, and the leaves fell, and neither of them said that it was afraid.";

class QuantizedModels : public test::OnEachDevice {
 protected:
  EngineOptions options() const {
    EngineOptions options;
    options.same_bits = true;
    options.device = device();
    options.context = 128;
    return options;
  }
  Model fixture(const std::string& name, TensorType type) const {
    const auto path = folder_.path() / (name + kernels::type_name(type) + ".gguf");
    write_quantized(name, type, path);
    return Model(path.string());
  }
  /// Checks that the 64 tokens after each prompt equal the host's, except for ties.
  void expect_tokens_of_host(const Model& model, const std::vector<Tokens>& prompts,
                             double tie = 0) const {
    std::vector<Request> requests;
    for (const Tokens& prompt : prompts) requests.push_back(greedy(prompt, 64));
    EngineOptions with = options();
    Engine engine(model, with);
    with.device = Device::host();
    const std::vector<Reply> host = Engine(model, with).generate(requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("prompt " + std::to_string(i));
      expect_tokens(model, prompts[i], engine.generate(requests[i]).tokens, host[i].tokens, tie);
    }
  }

 private:
  test::TemporaryFolder folder_;
};
ATTACCA_ON_EACH_DEVICE(QuantizedModels);

/// The host multiplies rows as 16-bit integers, which moves its log-probabilities by up to 1.5e-3.
constexpr double kTie = 2e-3;

TEST_P(QuantizedModels, of_the_fixtures_give_the_tokens_of_the_host) {
  for (const char* name : {"qwen2", "qwen3"}) {
    for (const TensorType type : kTypes) {
      SCOPED_TRACE(std::string(name) + " in " + kernels::type_name(type));
      const Tokens prompt = expected(name).prompt;
      expect_tokens_of_host(fixture(name, type), {prompt, {prompt.begin(), prompt.begin() + 3}},
                            is_cuda() ? kTie : 0);
    }
  }
}

TEST_P(QuantizedModels, give_the_log_probabilities_of_the_same_weights_in_float32) {
  const test::TemporaryFolder folder;
  Tokens text;
  for (std::int32_t i = 0; i < 90; ++i) text.push_back(i * 37 % 320);
  const auto compare = [&](TensorType type, bool is_fp8) {
    SCOPED_TRACE(kernels::type_name(type) + std::string(is_fp8 ? " as fp8" : ""));
    const std::string packed = folder.write("packed.gguf", test::packed_model(type));
    const std::string floats = folder.path() / "floats.gguf";
    model::write_dequantized(model::Checkpoint::open(packed),
                             is_fp8 ? model::WeightFormat::fp8 : model::WeightFormat::as_stored,
                             floats);
    EngineOptions with = options();
    if (is_fp8) with.weights = llm::WeightFormat::fp8;
    const auto got = Engine(Model(packed), with).score(text);
    with = options();
    with.device = Device::host_serial();
    const auto right = Engine(Model(floats), with).score(text);
    double squares = 0, sum = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      const double difference = got[i].logprob - right[i].logprob;
      squares += difference * difference;
      sum += difference;
    }
    const auto count = static_cast<double>(right.size());
    // A GPU rounds rows to 16 bits, and holds K-quants as Q4_1 or Q8_0.
    EXPECT_LT(std::sqrt(squares / count), is_cuda() ? 3e-2 : 3e-4);
    EXPECT_LT(std::abs(sum / count), is_cuda() ? 5e-3 : 1e-4);
  };
  for (const TensorType type :
       {TensorType::bf16, TensorType::f16, TensorType::q8_0, TensorType::q4_0, TensorType::q4_1,
        TensorType::q4_k, TensorType::q5_k, TensorType::q6_k})
    compare(type, false);
  if (is_cuda()) compare(TensorType::bf16, true);
}

TEST_P(QuantizedModels, the_embedded_one_gives_the_tokens_of_the_host) {
  const Model model("");
  const Tokens story = model.tokenize(kStory);
  expect_tokens_of_host(model, {{story.begin(), story.begin() + 40},
                                model.tokenize("The old woman"),
                                model.tokenize("One morning the cat")});
}

TEST_P(QuantizedModels, give_the_same_tokens_alone_and_in_every_company) {
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(kernels::type_name(type));
    expect_same_in_every_batch(fixture("qwen3", type), options(), text_of("qwen3"));
  }
}

TEST_P(QuantizedModels, give_the_same_tokens_for_every_cut_and_page_size) {
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(kernels::type_name(type));
    expect_same_for_every_cut_and_page_size(fixture("qwen3", type), options(), text_of("qwen3"));
  }
}

TEST_P(QuantizedModels, give_the_same_tokens_when_pages_run_out) {
  for (const TensorType type : kTypes) {
    SCOPED_TRACE(kernels::type_name(type));
    expect_same_when_pages_run_out(fixture("qwen3", type), options(), text_of("qwen3"));
  }
}

TEST_P(QuantizedModels, the_embedded_one_gives_the_same_tokens_alone_and_in_every_company) {
  if (!is_cuda()) GTEST_SKIP() << "takes long on the host, which has the smaller models for it";
  const Model model("");
  const Tokens story = model.tokenize(kStory);
  expect_same_in_every_batch(model, options(), story);
  expect_same_for_every_cut_and_page_size(model, options(), story);
  expect_same_when_pages_run_out(model, options(), story);
}

TEST_P(QuantizedModels, smollm2_gives_the_tokens_of_the_host_alone_and_in_company) {
  if (!is_cuda()) GTEST_SKIP() << "takes long on the host, which GPUs are compared with";
  const auto path = model::cached_model("smollm2");
  if (!path) GTEST_SKIP() << "no smollm2.gguf in the model cache; attacca pull smollm2";
  const Model model(path->string());
  std::vector<Tokens> prompts = {
      model.tokenize("Once upon a time, there was a"),
      model.tokenize("The capital of France is"),
      model.tokenize("import numpy as np\n\ndef softmax(x):\n"),
      model.chat(std::vector<llm::Message>{{"user", "Why is the sky blue?"}}),
  };
  expect_tokens_of_host(model, prompts);

  std::vector<Request> requests;
  std::vector<Tokens> alone;
  Engine lonely(model, options());
  for (const Tokens& prompt : prompts) {
    requests.push_back(greedy(prompt, 64));
    alone.push_back(lonely.generate(requests.back()).tokens);
  }
  EngineOptions with = options();
  for (const unsigned chunk : {512u, 5u}) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    with.prefill_chunk = chunk;
    const std::vector<Reply> together = Engine(model, with).generate(requests);
    for (std::size_t i = 0; i < requests.size(); ++i)
      expect_tokens(model, prompts[i], together[i].tokens, alone[i]);
  }
}

}  // namespace
}  // namespace attacca
