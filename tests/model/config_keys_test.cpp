// Tests of a configuration's keys: a key that would change the output is read or refused by name,
// an unknown key gives a note, and a missing key has the default of transformers.
#include "model/config_keys.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <fstream>
#include <iterator>

#include "tests/model/config_cases.hpp"

namespace attacca::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ConfigKeys, what_would_change_the_arithmetic_is_refused_by_name) {
  expect_refused("hidden_act", "gelu", "silu or swish is supported");
  expect_refused("attention_bias", true, "false is supported");
  expect_refused("mlp_bias", true, "false is supported");
  expect_refused("quantization_config", json::object(), "only models without it");
  expect_refused("num_local_experts", 8, "0 is supported");
  expect_refused("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}, "yarn",
                 "linear and llama3");
  expect_refused("rope_scaling", {{"rope_type", "dynamic"}, {"factor", 4}}, "dynamic");
  expect_refused("rope_scaling", {{"type", "linear"}}, "'factor' is missing");
  expect_refused("rope_scaling", {{"type", "linear"}, {"factor", 0}}, "out of bounds");
  expect_gguf_refused("qwen2.rope.scaling.type", "yarn", "rope.scaling.type is 'yarn'");
  expect_gguf_refused("qwen2.expert_count", std::uint32_t{8}, "expert_count is 8; 0 is supported");
}

TEST(ConfigKeys, keys_of_neighbouring_architectures_are_refused_by_name) {
  expect_refused("partial_rotary_factor", 0.5, "1 is supported");
  expect_refused("attention_multiplier", 0.25, "only models without it");
  expect_refused("logits_scaling", 8, "1 is supported");
  expect_refused("logit_scale", 0.0625, "1 is supported");
  expect_refused("residual_multiplier", 0.22, "1 is supported");
  expect_refused("final_logit_softcapping", 30, "only models without it");
  expect_refused("no_rope_layers", {1, 0}, "only models without it");
  expect_refused("is_causal", false, "true is supported");
  expect_refused("rope_interleaved", true, "false is supported");
  expect_refused("layer_types", {"full_attention", "chunked_attention"}, "sliding_attention");
  expect_gguf_refused("qwen2.logit_scale", 0.25f, "qwen2.logit_scale is 0.25; 0 or 1");
  expect_gguf_refused("qwen2.residual_scale", 0.5f, "qwen2.residual_scale is 0.5");
  expect_gguf_refused("qwen2.final_logit_softcapping", 30.f, "softcapping is 30");
  expect_gguf_refused("qwen2.attention.causal", false, "attention.causal is false");
  expect_gguf_refused("qwen2.attention.sliding_window_pattern", std::uint32_t{4},
                      "only models without it");
  expect_gguf_refused("qwen2.attention.sliding_window_pattern", std::vector<std::int32_t>{1, 0},
                      "is a list");
  expect_gguf_refused("qwen2.rope.scaling.attn_factor", 1.5f, "attn_factor is 1.5");
  expect_gguf_refused("general.type", "adapter", "general.type is 'adapter'; model is");
}

TEST(ConfigKeys, values_that_change_nothing_pass_and_leave_no_note) {
  json config = small_json();
  config.update({{"hidden_act", "silu"},
                 {"attention_bias", false},
                 {"mlp_bias", false},
                 {"partial_rotary_factor", 1.0},
                 {"logit_scale", 1},
                 {"num_experts", 0},
                 {"quantization_config", nullptr},
                 {"no_rope_layers", nullptr},
                 {"pretraining_tp", 2},
                 {"torch_dtype", "bfloat16"},
                 {"transformers_version", "5"},
                 {"use_mrope", false}});
  EXPECT_THAT(from_json(config).notes, IsEmpty());
  json qwen2 = small_json("qwen2");
  qwen2["attention_bias"] = true;  // Qwen2 has biases
  EXPECT_THAT(from_json(qwen2).notes, IsEmpty());
}

TEST(ConfigKeys, those_of_published_files_leave_no_note) {
  for (const char* name : {"llama", "llama3-rope", "mistral-window", "qwen2", "qwen3"}) {
    std::ifstream file(std::string("tests/engine/fixtures/") + name + "/config.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_THAT(model::config_from_json(text, "", "folder").notes, IsEmpty()) << name;
  }
}

TEST(ConfigKeys, one_that_nobody_knows_is_told_of) {
  json config = small_json();
  config["auto_map"] = json::object();
  config["zeta"] = 7;
  config["nothing"] = nullptr;
  EXPECT_THAT(from_json(config).notes,
              ElementsAre(AllOf(HasSubstr("folder/config.json"), HasSubstr("'auto_map', 'zeta'"))));
  for (int i = 0; i < 20; ++i) config["key " + std::to_string(i)] = i;
  EXPECT_THAT(from_json(config).notes, ElementsAre(HasSubstr("and 14 more")));
  config = small_json();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}, {"beta", 1}};
  EXPECT_THAT(from_json(config).notes, ElementsAre(HasSubstr("rope_scaling: passed over")));

  const SmallModel small("qwen2", true, false);
  EXPECT_THAT(model::config_from_gguf(SmallGguf(small, "qwen2.attention.spin", true).file).notes,
              ElementsAre(AllOf(HasSubstr("test.gguf"), HasSubstr("'qwen2.attention.spin'"))));
  EXPECT_THAT(model::config_from_gguf(SmallGguf(small, "general.license", "MIT").file).notes,
              IsEmpty());
}

TEST(ConfigKeys, a_scale_of_attention_is_that_of_its_heads) {
  const SmallModel small("qwen2", true, false);
  for (const float scale : {0.f, 0.25f})  // heads of 16
    EXPECT_THAT(
        model::config_from_gguf(SmallGguf(small, "qwen2.attention.scale", scale).file).notes,
        IsEmpty());
  expect_gguf_refused("qwen2.attention.scale", 0.125f, "scale is 0.125; 1 / sqrt(16)");
}

TEST(ConfigKeys, a_factor_without_a_type_is_linear_in_gguf) {
  const SmallModel small("qwen2", true, false);
  const ModelConfig config =
      model::config_from_gguf(SmallGguf(small, "qwen2.rope.scaling.factor", 4.f).file);
  EXPECT_EQ(config.scaling.kind, model::RopeScaling::Kind::linear);
  EXPECT_EQ(config.scaling.factor, 4);
}

TEST(ConfigKeys, rotary_parameters_in_two_places_must_agree) {
  json config = small_json();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 256}};
  EXPECT_EQ(from_json(config).rope_theta, 256);
  config["rope_parameters"]["factor"] = 8;
  EXPECT_THAT([&] { from_json(config); },
              ThrowsMessage<BadArgument>(HasSubstr("'rope_parameters' is there too")));
  expect_refused("rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}, "full_attention",
                 "only models without it");
  expect_refused("rope_parameters", {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}},
                 "partial_rotary_factor");
}

TEST(ConfigKeys, a_window_is_all_layers_or_none) {
  json qwen = small_json("qwen2");
  qwen["sliding_window"] = 64;
  EXPECT_EQ(from_json(qwen).window, 0u) << "Qwen2 has it off unless it says otherwise";
  qwen["use_sliding_window"] = true;
  EXPECT_EQ(from_json(qwen).window, 0u) << "its first 28 layers have none";
  qwen["max_window_layers"] = 0;
  EXPECT_EQ(from_json(qwen).window, 64u);
  qwen.erase("sliding_window");
  EXPECT_EQ(from_json(qwen).window, 4096u);
  qwen["sliding_window"] = 64;
  qwen["max_window_layers"] = 1;
  EXPECT_THAT([&] { from_json(qwen); },
              ThrowsMessage<BadArgument>(HasSubstr("for 1 of 2 layers; all or none")));
  qwen["layer_types"] = {"sliding_attention", "sliding_attention"};
  EXPECT_EQ(from_json(qwen).window, 64u);
  qwen["use_sliding_window"] = false;
  EXPECT_THAT([&] { from_json(qwen); }, ThrowsMessage<BadArgument>(AllOf(
                                            HasSubstr("layer_types"), HasSubstr("contradicts"))));
}

TEST(ConfigKeys, mistral_has_its_window_and_llama_none) {
  json config = small_json();
  config["sliding_window"] = 64;
  EXPECT_EQ(from_json(config).window, 0u);
  EXPECT_THAT(from_json(config).notes, ElementsAre(HasSubstr("'sliding_window' is 64")));
  config["architectures"] = {"MistralForCausalLM"};
  EXPECT_EQ(from_json(config).window, 64u) << "without a model_type too";
  config["architectures"] = {"LlamaForCausalLM"};
  config["model_type"] = "mistral";
  EXPECT_EQ(from_json(config).window, 64u);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(from_json(config).window, 0u);
  config.erase("sliding_window");
  EXPECT_EQ(from_json(config).window, 4096u);
  config["use_sliding_window"] = false;
  EXPECT_THAT([&] { from_json(config); }, ThrowsMessage<BadArgument>(AllOf(
                                              HasSubstr("use_sliding_window"), HasSubstr("null"))));
}

TEST(ConfigKeys, a_size_that_transformers_would_make_up_is_asked_for) {
  const auto refusal = [](const char* key) {
    return ThrowsMessage<BadArgument>(HasSubstr(std::string("key '") + key + "' is missing"));
  };
  json qwen3 = small_json("qwen3");
  qwen3.erase("head_dim");
  EXPECT_THAT([&] { from_json(qwen3); }, refusal("head_dim"));
  json qwen2 = small_json("qwen2");
  qwen2.erase("head_dim");
  EXPECT_EQ(from_json(qwen2).head_size, 8u);
  qwen2.erase("num_key_value_heads");
  EXPECT_THAT([&] { from_json(qwen2); }, refusal("num_key_value_heads"));
  qwen2["num_key_value_heads"] = nullptr;
  EXPECT_EQ(from_json(qwen2).kv_heads, 4u);
  json llama = small_json();
  llama.erase("num_key_value_heads");
  EXPECT_EQ(from_json(llama).kv_heads, 4u);
}

}  // namespace
}  // namespace attacca::test
