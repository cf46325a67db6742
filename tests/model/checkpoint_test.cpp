// Tests of opened models: the same tensors for every kind of files, none missing and none left
// over, and the sources of tokenizer and chat template.
#include "model/checkpoint.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include "tests/model/small_folder.hpp"

namespace attacca::test::checkpoint_test {
namespace {

using formats::Tensor;
using model::Checkpoint;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::filesystem::path write_gguf(const TemporaryFolder& folder, const SmallModel& small) {
  small.writer().write(folder.path() / "model.gguf");
  return folder.path() / "model.gguf";
}

void write_folder(const TemporaryFolder& folder, const SmallModel& small,
                  const json& more = json::object()) {
  json config = config_json_of(small);
  config.update(more);
  folder.write("config.json", config.dump());
  folder.write("model.safetensors", safetensors_of(small));
}

template <class... Parts>
void expect_refused(const std::filesystem::path& path, Parts... parts) {
  EXPECT_THAT([&] { Checkpoint::open(path); },
              ThrowsMessage<BadArgument>(AllOf(HasSubstr(path.string()), HasSubstr(parts)...)));
}

TEST(Checkpoint, both_kinds_of_files_give_the_same_tensors) {
  for (const char* name : {"llama", "qwen2", "qwen3"})
    for (const bool has_head : {false, true}) {
      SCOPED_TRACE(testing::Message() << name << (has_head ? " with a head" : ""));
      const SmallModel gguf(name, true, has_head);
      const SmallModel hf(name, false, has_head);
      const TemporaryFolder folder;
      const Checkpoint first = Checkpoint::open(write_gguf(folder, gguf));
      write_folder(folder, hf);
      const Checkpoint second = Checkpoint::open(folder.path());
      EXPECT_EQ(first.config().is_tied, !has_head);
      EXPECT_EQ(second.config().is_tied, !has_head);
      EXPECT_EQ(first.config().name, "model");
      EXPECT_EQ(second.config().name, folder.path().filename());
      ASSERT_EQ(first.tensors().size(), gguf.shapes.size());
      ASSERT_EQ(second.tensors().size(), gguf.shapes.size());
      for (const Tensor& tensor : first.tensors()) {
        EXPECT_EQ(formats::to_floats(tensor), gguf.values.at(tensor.name));
        ASSERT_NE(second.find(tensor.name), nullptr) << tensor.name;
        EXPECT_EQ(second.find(tensor.name)->shape, tensor.shape);
      }
      EXPECT_EQ(first.find("blk.0.attn_q.bias") != nullptr, name == std::string_view("qwen2"));
      EXPECT_EQ(first.find("blk.1.attn_k_norm.weight") != nullptr,
                name == std::string_view("qwen3"));
      EXPECT_EQ(first.head().name, has_head ? "output.weight" : "token_embd.weight");
    }
}

TEST(Checkpoint, a_safetensors_file_is_opened_with_the_configuration_beside_it) {
  const TemporaryFolder folder;
  const SmallModel small("llama", false, false);
  write_folder(folder, small);
  const Checkpoint checkpoint = Checkpoint::open(folder.path() / "model.safetensors");
  EXPECT_EQ(formats::to_floats(*checkpoint.find("blk.1.ffn_down.weight")),
            small.values.at("model.layers.1.mlp.down_proj.weight"));
  std::filesystem::remove(folder.path() / "config.json");
  EXPECT_THAT([&] { Checkpoint::open(folder.path() / "model.safetensors"); },
              ThrowsMessage<BadArgument>(HasSubstr("has no config.json")));
}

TEST(Checkpoint, a_missing_a_misshapen_and_a_foreign_tensor_are_refused_by_name) {
  const TemporaryFolder folder;
  SmallModel small("qwen3", true, false);
  small.remove("blk.1.ffn_up.weight");
  expect_refused(write_gguf(folder, small), "'blk.1.ffn_up.weight' [40, 32] is missing");
  small.add("blk.1.ffn_up.weight", {32, 40});
  expect_refused(write_gguf(folder, small),
                 "'blk.1.ffn_up.weight' has shape [32, 40]; [40, 32] is expected");
  small.add("blk.1.ffn_up.weight", {40, 32});
  small.add("blk.2.ffn_up.weight", {40, 32});
  expect_refused(write_gguf(folder, small),
                 "'blk.2.ffn_up.weight' is no part of qwen3 with 2 layers");
  small.remove("blk.2.ffn_up.weight");
  small.add("blk.0.attn_q.bias", {64});
  expect_refused(write_gguf(folder, small), "'blk.0.attn_q.bias' is no part of qwen3");
  expect_refused(folder.path() / "none", "there is no");
}

TEST(Checkpoint, a_head_that_is_promised_must_be_there) {
  const TemporaryFolder folder;
  write_folder(folder, SmallModel("llama", false, false), {{"tie_word_embeddings", false}});
  expect_refused(folder.path(), "'lm_head.weight' [48, 32] is missing");
}

TEST(Checkpoint, a_tied_model_has_the_head_of_its_file_where_that_is_another) {
  const TemporaryFolder folder;
  SmallModel small("llama", false, true);
  small.add("model.layers.0.self_attn.rotary_emb.inv_freq", {8});
  small.values["lm_head.weight"] = small.values["model.embed_tokens.weight"];
  write_folder(folder, small, {{"tie_word_embeddings", true}});
  {
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    EXPECT_EQ(checkpoint.find("output.weight"), nullptr) << "it is a copy of the embedding";
    EXPECT_EQ(checkpoint.head().name, "token_embd.weight");
    EXPECT_EQ(checkpoint.config().is_tied, true);
    EXPECT_THAT(checkpoint.config().notes, IsEmpty());
  }
  small.values["lm_head.weight"].back() += 1;
  write_folder(folder, small, {{"tie_word_embeddings", true}});
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(formats::to_floats(checkpoint.head()), small.values.at("lm_head.weight"));
  EXPECT_EQ(checkpoint.config().is_tied, false);
  EXPECT_THAT(checkpoint.config().notes,
              ElementsAre(AllOf(HasSubstr(folder.path().string()),
                                HasSubstr("'lm_head.weight' is not the embedding; it is used"))));
}

TEST(Checkpoint, weights_are_summed_by_type) {
  const TemporaryFolder folder;
  SmallModel small("llama", true, false);
  small.remove("blk.0.ffn_up.weight");
  const std::vector<std::byte> quantized(40 * kernels::row_bytes(kernels::TensorType::q8_0, 32));
  formats::GgufWriter writer = small.writer();
  writer.add("blk.0.ffn_up.weight", kernels::TensorType::q8_0, {40, 32}, quantized);
  writer.write(folder.path() / "mixed.gguf");
  const Checkpoint checkpoint = Checkpoint::open(folder.path() / "mixed.gguf");
  const model::WeightSummary weights = checkpoint.weights();
  std::uint64_t parameters = 40 * 32;
  for (const auto& [name, shape] : small.shapes) parameters += *formats::element_count(shape);
  EXPECT_EQ(weights.parameters, parameters);
  EXPECT_EQ(weights.tensors, small.shapes.size() + 1);
  ASSERT_EQ(weights.types.size(), 2u);
  EXPECT_EQ(weights.types[0].type, kernels::TensorType::f32);
  EXPECT_EQ(weights.types[0].bytes, (parameters - 40 * 32) * 4);
  EXPECT_EQ(weights.types[1].bytes, 40u * 34);
  EXPECT_EQ(weights.bytes, weights.types[0].bytes + weights.types[1].bytes);
}

TEST(Checkpoint, a_norm_that_is_quantized_is_refused) {
  const TemporaryFolder folder;
  SmallModel small("llama", true, false);
  small.remove("output_norm.weight");
  const std::vector<std::byte> quantized(34);
  formats::GgufWriter writer = small.writer();
  writer.add("output_norm.weight", kernels::TensorType::q8_0, {32}, quantized);
  writer.write(folder.path() / "model.gguf");
  expect_refused(folder.path() / "model.gguf", "'output_norm.weight' is Q8_0; F32, F16 or BF16");
}

TEST(Checkpoint, chat_templates_are_found_wherever_they_are) {
  const TemporaryFolder folder;
  const SmallModel gguf("llama", true, false);
  EXPECT_EQ(Checkpoint::open(write_gguf(folder, gguf)).chat_template(), std::nullopt);
  formats::GgufWriter writer = gguf.writer();
  writer.set("tokenizer.chat_template", "of metadata");
  writer.write(folder.path() / "chat.gguf");
  const Checkpoint chat = Checkpoint::open(folder.path() / "chat.gguf");
  EXPECT_EQ(chat.chat_template(), "of metadata");
  EXPECT_NE(chat.gguf(), nullptr);

  write_folder(folder, SmallModel("llama", false, false));
  const auto opened = [&] { return Checkpoint::open(folder.path()); };
  EXPECT_EQ(opened().chat_template(), std::nullopt);
  EXPECT_EQ(opened().gguf(), nullptr);
  EXPECT_TRUE(opened().tokenizer_files().tokenizer_json.empty());
  folder.write("tokenizer.json", "{}");
  folder.write("tokenizer_config.json", R"({"chat_template": "of a string"})");
  EXPECT_EQ(opened().tokenizer_files().tokenizer_json, folder.path() / "tokenizer.json");
  EXPECT_EQ(opened().chat_template(), "of a string");
  folder.write("tokenizer_config.json",
               R"({"chat_template": [{"name": "tool_use", "template": "other"},
                                     {"name": "default", "template": "of a list"}]})");
  EXPECT_EQ(opened().chat_template(), "of a list");
  folder.write("tokenizer_config.json", R"({"chat_template": 7})");
  EXPECT_THROW(opened().chat_template(), BadArgument);
  folder.write("chat_template.jinja", "of a file");
  EXPECT_EQ(opened().chat_template(), "of a file");
}

TEST(Checkpoint, progress_ends_with_all_of_it) {
  const TemporaryFolder folder;
  const SmallModel small("llama", true, false);
  std::vector<std::string> told;
  const auto progress = [&](std::string_view what, std::uint64_t done, std::uint64_t total) {
    told.emplace_back(what);
    EXPECT_EQ(done, total);
  };
  const Checkpoint checkpoint = Checkpoint::open(write_gguf(folder, small), progress);
  checkpoint.read_ahead(progress);
  EXPECT_THAT(told, ElementsAre("model.gguf", "reading weights"));
}

}  // namespace
}  // namespace attacca::test::checkpoint_test
