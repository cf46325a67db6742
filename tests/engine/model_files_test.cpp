// A model's files as an engine meets them: tokens without a row of the embedding.
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
using llm::Model;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// The fixture llama, which has 288 tokens, with a tokenizer that knows a few of them.
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

}  // namespace
}  // namespace attacca
