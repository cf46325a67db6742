// Tests of an engine with odd model files: tokens without a row, templates that cannot be used, a
// head that differs from the configuration, and texts longer than the pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <filesystem>
#include <string>

#include "engine/fixtures.hpp"
#include "model/small_folder.hpp"

namespace attacca {
namespace {

using engine_tests::fixture;
using llm::Engine;
using llm::EngineOptions;
using llm::Model;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

/// The fixture llama, which has 288 tokens, with a tokenizer that has a few of them.
class LlamaWithTokenizer {
 public:
  LlamaWithTokenizer() {
    std::filesystem::copy(fixture("llama"), folder_.path());
    write();
  }
  std::string path() const { return folder_.path(); }
  const test::TemporaryFolder& folder() const { return folder_; }
  void write() const { folder_.write("tokenizer.json", tokenizer.dump()); }

  json tokenizer = {
      {"model",
       {{"type", "BPE"}, {"vocab", {{"a", 3}, {"b", 4}, {"ab", 287}}}, {"merges", {"a b"}}}}};

 private:
  test::TemporaryFolder folder_;
};

EngineOptions on_host() {
  EngineOptions options;
  options.device = Device::host_serial();
  return options;
}

TEST(ModelFiles, a_token_without_a_row_of_the_embedding_is_refused_by_name) {
  LlamaWithTokenizer files;
  EXPECT_THAT(Model(files.path()).tokenize("ab"), ElementsAre(287));
  files.tokenizer["model"]["vocab"]["far"] = 290;
  files.tokenizer["model"]["vocab"]["beyond"] = 288;
  files.write();
  EXPECT_THAT([&] { Model model(files.path()); },
              ThrowsMessage<BadArgument>(
                  AllOf(HasSubstr("tokenizer.json: token 'beyond' has the id 288"),
                        HasSubstr("vocabulary ends at 287"), HasSubstr("use the tokenizer that"))));
}

TEST(ModelFiles, so_is_an_added_one) {
  LlamaWithTokenizer files;
  files.tokenizer["added_tokens"] = {{{"id", 300}, {"content", "<pad>"}, {"special", true}}};
  files.write();
  EXPECT_THAT([&] { Model model(files.path()); },
              ThrowsMessage<BadArgument>(HasSubstr("token '<pad>' has the id 300")));
}

TEST(ModelFiles, a_chat_template_that_does_not_parse_stops_chat_and_nothing_else) {
  const LlamaWithTokenizer files;
  files.folder().write("chat_template.jinja", "{% if messages %}\n{{ broken");
  const Model model(files.path());
  EXPECT_TRUE(model.has_chat_template()) << "or a chat would silently go on from the prompt";
  EXPECT_THAT(model.notes(), ElementsAre(AllOf(HasSubstr("chat template"), HasSubstr("line 2"))));
  EXPECT_THAT(
      [&] {
        model.chat(std::vector<llm::Message>{{"user", "a"}});
      },
      ThrowsMessage<BadArgument>(AllOf(HasSubstr("line 2"), HasSubstr("give the model a prompt"))));
  Engine engine(model, on_host());
  EXPECT_EQ(engine.score(model.tokenize("abab")).size(), 1u);
  EXPECT_EQ(engine.generate({.prompt = "ab", .max_tokens = 2, .ignores_end = true}).tokens.size(),
            2u);
}

TEST(ModelFiles, nor_does_one_that_is_no_template) {
  const LlamaWithTokenizer files;
  files.folder().write("tokenizer_config.json", R"({"chat_template": 7})");
  EXPECT_THAT(
      [&] {
        Model(files.path()).chat(std::vector<llm::Message>{{"user", "a"}});
      },
      ThrowsMessage<BadArgument>(HasSubstr("a string or a list is expected")));
}

TEST(ModelFiles, a_head_that_is_not_the_promised_embedding_is_used_and_told_of) {
  const test::TemporaryFolder folder;
  std::filesystem::copy(fixture("llama"), folder.path());
  const Model untied(folder.path());
  EXPECT_THAT(untied.notes(), IsEmpty());
  json config = json::parse(std::ifstream(fixture("llama") + "/config.json"));
  config["tie_word_embeddings"] = true;
  folder.write("config.json", config.dump());
  const Model tied(folder.path());
  EXPECT_THAT(tied.notes(), ElementsAre(HasSubstr("'lm_head.weight' is not the embedding")));
  const std::vector<std::int32_t> tokens = {1, 5, 9, 200};
  const auto scores = Engine(untied, on_host()).score(tokens);
  const auto same = Engine(tied, on_host()).score(tokens);
  for (std::size_t i = 0; i < scores.size(); ++i) EXPECT_EQ(same[i].logprob, scores[i].logprob);
}

TEST(ModelFiles, the_longest_sequence_is_what_the_pages_hold) {
  const Model model(fixture("llama"));
  EngineOptions options = on_host();
  options.context = 128;
  EXPECT_EQ(Engine(model, options).longest_sequence(), 128u);
  options.pages = 3;
  Engine engine(model, options);
  EXPECT_EQ(engine.longest_sequence(), 48u);
  EXPECT_EQ(engine.score(std::vector<std::int32_t>(48, 7)).size(), 47u);
  EXPECT_THROW(engine.score(std::vector<std::int32_t>(49, 7)), BadArgument);
}

}  // namespace
}  // namespace attacca
