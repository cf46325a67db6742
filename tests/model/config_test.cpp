// Tests of configurations: what is read from both kinds of files, what is refused, and the RoPE
// frequencies against those of transformers.
#include "model/config.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <cmath>

#include "tests/model/config_cases.hpp"

namespace attacca::test {
namespace {

using kernels::RotaryPairs;
using testing::ElementsAre;

void expect_small(const ModelConfig& config, const char* architecture) {
  EXPECT_STREQ(config.architecture->name, architecture);
  EXPECT_EQ(config.vocabulary, 48u);
  EXPECT_EQ(config.hidden, 32u);
  EXPECT_EQ(config.layers, 2u);
  EXPECT_EQ(config.heads, 4u);
  EXPECT_EQ(config.kv_heads, 2u);
  EXPECT_EQ(config.head_size, 16u);
  EXPECT_EQ(config.feed_forward, 40u);
  EXPECT_EQ(config.context, 128u);
  EXPECT_EQ(config.window, 0u);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.rope_theta, 10000);
  EXPECT_EQ(config.rotary_size, 16u);
  EXPECT_EQ(kv_bytes_per_token(config), 2u * 2 * 2 * 16 * 4);
}

TEST(Config, both_kinds_of_files_say_the_same) {
  for (const char* name : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    const bool is_llama = name == std::string_view("llama");
    const SmallGguf small(SmallModel(name, true, false), "general.name", "a small one");
    const ModelConfig gguf = model::config_from_gguf(small.file);
    expect_small(gguf, name);
    EXPECT_EQ(gguf.name, "a small one");
    EXPECT_EQ(gguf.pairs, is_llama ? RotaryPairs::adjacent : RotaryPairs::halves);
    const ModelConfig hf = from_json(small_json(name));
    expect_small(hf, name);
    EXPECT_EQ(hf.pairs, RotaryPairs::halves);
  }
}

TEST(Config, an_architecture_is_found_by_either_name) {
  json config = small_json();
  config["architectures"] = {"MistralForCausalLM"};
  EXPECT_STREQ(from_json(config).architecture->name, "llama");
  config.erase("architectures");
  config["model_type"] = "qwen3";
  EXPECT_STREQ(from_json(config).architecture->name, "qwen3");
  config["model_type"] = "mamba";
  EXPECT_THAT([&] { from_json(config); },
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("model_type"), HasSubstr("mamba"),
                                               HasSubstr("llama, qwen2, qwen3 are supported"))));
  expect_refused("architectures", {"GPT2LMHeadModel"}, "GPT2LMHeadModel", "are supported");
  expect_gguf_refused("split.count", std::uint32_t{3}, "split.count is 3", "join them");
}

TEST(Config, sizes_that_cannot_be_are_refused_by_key_and_value) {
  expect_refused("vocab_size", 0, "is 0; 1 to");
  expect_refused("hidden_size", 1u << 20, "is 1048576; 1 to 131072");
  expect_refused("hidden_size", -1, "'-1'", "a whole number");
  expect_refused("hidden_size", 1ull << 40, "'1099511627776'");
  expect_refused("num_hidden_layers", 100'000, "is 100000");
  expect_refused("num_attention_heads", 0, "is 0");
  expect_refused("num_key_value_heads", 3, "is 4, which is not a multiple of", "3");
  expect_refused("head_dim", 20, "is 20; heads of a multiple of 8 up to 256");
  expect_refused("head_dim", 512, "is 512; 1 to 256");
  expect_refused("rms_norm_eps", 0, "is 0; a number between 0 and 1");
  expect_refused("rope_theta", 0.5, "is 0.5");
  expect_refused("rope_theta", "big", "a number is expected");
  expect_refused("vocab_size", nullptr, "is missing");
  expect_gguf_refused("qwen2.attention.value_length", std::uint32_t{8}, "value_length is 8");
  expect_gguf_refused("qwen2.rope.dimension_count", std::uint32_t{15},
                      "qwen2.rope.dimension_count is 15; an even number");
  expect_gguf_refused("qwen2.rope.freq_base", 0.f, "qwen2.rope.freq_base is 0");
  expect_gguf_refused("tokenizer.ggml.eos_token_id", std::uint32_t{48}, "eos_token_id is 48");
  std::vector<std::string> tokens(48, "near");
  tokens.insert(tokens.end(), {"far", "farther"});
  expect_gguf_refused("tokenizer.ggml.tokens", tokens, "50 tokens", "token 48 'far' has none",
                      "convert the model again");
}

TEST(Config, rows_too_long_for_the_buffer_that_keeps_their_squares_are_refused) {
  json config = small_json();
  config["head_dim"] = 8;  // 4 heads of 8: sums for 16 * 32 elements fit into attention's output
  config["hidden_size"] = 512;
  EXPECT_EQ(from_json(config).hidden, 512u);
  config["hidden_size"] = 528;
  EXPECT_THAT([&] { from_json(config); },
              ThrowsMessage<BadArgument>(AllOf(
                  HasSubstr("hidden_size is 528, more than 16 times the 32 elements of 4 heads"),
                  HasSubstr("would overlap; at most 512"))));
  ModelConfig sizes = SmallModel::sizes();
  sizes.hidden = 1040;  // 4 heads of 16
  const std::string text = text_of(SmallModel("qwen2", true, false).writer(sizes));
  EXPECT_THAT([&] { model::config_from_gguf(formats::GgufFile::parse(bytes_of(text), "x")); },
              ThrowsMessage<BadArgument>(HasSubstr("qwen2.embedding_length is 1040")));
}

TEST(Config, all_ids_that_end_a_text_are_gathered) {
  json config = small_json();
  config["bos_token_id"] = 1;
  config["eos_token_id"] = 2;
  const ModelConfig plain = from_json(config);
  EXPECT_EQ(plain.bos_id, 1);
  EXPECT_EQ(plain.eos_id, 2);
  EXPECT_EQ(plain.pad_id, std::nullopt);
  EXPECT_THAT(plain.eos_ids, ElementsAre(2));
  EXPECT_EQ(plain.generation.temperature, std::nullopt);
  const ModelConfig advised = from_json(config, {{"eos_token_id", {7, 2}},
                                                 {"pad_token_id", 3},
                                                 {"do_sample", true},
                                                 {"temperature", 0.5},
                                                 {"top_k", 20},
                                                 {"top_p", 0.75},
                                                 {"repetition_penalty", 1.125}});
  EXPECT_EQ(advised.eos_id, 7);
  EXPECT_EQ(advised.pad_id, 3);
  EXPECT_THAT(advised.eos_ids, ElementsAre(2, 7));
  EXPECT_EQ(advised.generation.does_sample, true);
  EXPECT_EQ(advised.generation.temperature, 0.5f);
  EXPECT_EQ(advised.generation.top_k, 20u);
  EXPECT_EQ(advised.generation.top_p, 0.75f);
  EXPECT_EQ(advised.generation.repetition_penalty, 1.125f);
  const json many = {9, 8, 7, 6, 5, 4, 3, 1, 0, 11, 12, 13};
  EXPECT_EQ(from_json(config, {{"eos_token_id", many}}).eos_ids.size(), 13u) << "and the 2";
  EXPECT_THAT(
      [&] {
        from_json(config, {{"eos_token_id", {2, 48}}});
      },
      ThrowsMessage<BadArgument>(HasSubstr("generation_config.json")));
  expect_refused("bos_token_id", 48, "an id below the vocabulary's 48");
  expect_refused("eos_token_id", 48, "an id below the vocabulary's 48");
  expect_refused("eos_token_id", {1, "x"}, "an id below");

  const SmallModel small("llama", true, false);
  formats::GgufWriter writer = small.writer();
  writer.set("tokenizer.ggml.eos_token_id", std::uint32_t{2});
  writer.set("tokenizer.ggml.eot_token_id", std::uint32_t{5});
  writer.set("tokenizer.ggml.eom_token_id", std::uint32_t{2});
  const std::string text = text_of(writer);
  EXPECT_THAT(model::config_from_gguf(formats::GgufFile::parse(bytes_of(text), "x")).eos_ids,
              ElementsAre(2, 5));
}

TEST(Config, frequencies_without_and_with_linear_scaling) {
  json config = small_json();
  config["rope_theta"] = 256;  // 256^(1/8) = 2
  const std::vector<float> plain = rotary_frequencies(from_json(config));
  ASSERT_EQ(plain.size(), 8u);
  for (std::size_t pair = 0; pair < 8; ++pair)
    EXPECT_FLOAT_EQ(plain[pair], std::ldexp(1.f, -static_cast<int>(pair)));
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  EXPECT_FLOAT_EQ(rotary_frequencies(from_json(config))[1], 0.125f);
}

// The frequencies are those of transformers 5.22: ROPE_INIT_FUNCTIONS["llama3"].
TEST(Config, llama_3_scaling_gives_the_frequencies_of_transformers) {
  constexpr float kExpected[32] = {1.0,
                                   0.663601279258728,
                                   0.44036662578582764,
                                   0.2922278344631195,
                                   0.193922758102417,
                                   0.12868738174438477,
                                   0.08539710193872452,
                                   0.05666961893439293,
                                   0.03760603070259094,
                                   0.02495540864765644,
                                   0.016560440883040428,
                                   0.010989529080688953,
                                   0.00729266507551074,
                                   0.00483942124992609,
                                   0.0032114461064338684,
                                   0.0013718936825171113,
                                   0.0005248460220173001,
                                   0.0001785077911335975,
                                   7.784655463183299e-05,
                                   5.165906986803748e-05,
                                   3.428102354519069e-05,
                                   2.2748929040972143e-05,
                                   1.5096217794052791e-05,
                                   1.0017868589784484e-05,
                                   6.647869668086059e-06,
                                   4.411534519022098e-06,
                                   2.927499735960737e-06,
                                   1.9426925064180978e-06,
                                   1.289173155782919e-06,
                                   8.554969213037111e-07,
                                   5.677088097399974e-07,
                                   3.76732259610435e-07};
  json config = small_json();
  config["head_dim"] = 64;
  const json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 8192}};
  const auto expect_equal = [&] {
    const std::vector<float> frequencies = rotary_frequencies(from_json(config));
    ASSERT_EQ(frequencies.size(), 32u);
    for (std::size_t pair = 0; pair < 32; ++pair)
      EXPECT_NEAR(frequencies[pair] / kExpected[pair], 1, 2e-6) << pair;
  };
  config["rope_theta"] = 500000;
  config["rope_scaling"] = scaling;
  expect_equal();
  config.erase("rope_theta");  // as newer files have it
  config.erase("rope_scaling");
  config["rope_parameters"] = scaling;
  config["rope_parameters"]["rope_theta"] = 500000;
  expect_equal();
}

TEST(Config, divisors_of_a_gguf_file_stretch_the_frequencies) {
  SmallModel small("llama", true, false);
  small.add("rope_freqs.weight", {8});
  small.values["rope_freqs.weight"] = {1, 1, 1, 1, 2, 4, 8, 8};
  const SmallGguf file(small, "llama.rope.freq_base", 256.f);
  const std::vector<float> frequencies = rotary_frequencies(model::config_from_gguf(file.file));
  EXPECT_FLOAT_EQ(frequencies[3], 0.125f);
  EXPECT_FLOAT_EQ(frequencies[5], 0.03125f / 4);
  small.values["rope_freqs.weight"][2] = 0;
  EXPECT_THAT([&] { model::config_from_gguf(SmallGguf(small, "x", true).file); },
              ThrowsMessage<BadArgument>(HasSubstr("'rope_freqs.weight' holds 0")));
  small.add("rope_freqs.weight", {7});
  EXPECT_THAT([&] { model::config_from_gguf(SmallGguf(small, "x", true).file); },
              ThrowsMessage<BadArgument>(HasSubstr("has shape [7]; [8] is expected")));
}

}  // namespace
}  // namespace attacca::test
