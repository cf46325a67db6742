// Tests of the llama2.c converter: a checkpoint written here, the fixture in ../shared/fixtures if
// it is there, and corrupt files.
#include "formats/llama2c.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <cstring>
#include <limits>

#include "model/checkpoint.hpp"
#include "tests/model/small_model.hpp"

namespace attacca::test {
namespace {

using model::Checkpoint;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

template <class T>
void put(std::string& text, T number) {
  text.append(reinterpret_cast<const char*>(&number), sizeof number);
}

constexpr int kHidden = 32, kFeedForward = 24, kLayers = 2, kHeads = 4, kKvHeads = 2, kTokens = 6,
              kContext = 5;
constexpr int kKeys = kHidden / kHeads * kKvHeads;

/// Float n of the file is n.
std::string checkpoint_text(bool has_head) {
  std::string text;
  for (const int size :
       {kHidden, kFeedForward, kLayers, kHeads, kKvHeads, has_head ? -kTokens : kTokens, kContext})
    put(text, std::int32_t{size});
  constexpr int kLayer =
      2 * kHidden + 2 * kHidden * kHidden + 2 * kKeys * kHidden + 3 * kHidden * kFeedForward;
  const int floats = kTokens * kHidden * (has_head ? 2 : 1) + kLayers * kLayer + kHidden +
                     kContext * (kHidden / kHeads);
  for (int at = 0; at < floats; ++at) put(text, static_cast<float>(at));
  return text;
}

std::string tokenizer_text() {
  std::string text;
  put(text, std::int32_t{7});
  for (const std::string_view token : {"<unk>", "\n<s>\n", "\n</s>\n", "<0x0A>", " a", "b c"}) {
    put(text, static_cast<float>(token.size()));
    put(text, static_cast<std::int32_t>(token.size()));
    text += token;
  }
  return text;
}

TEST(Llama2c, a_checkpoint_becomes_a_gguf_file) {
  const TemporaryFolder folder;
  const auto output = folder.path() / "out.gguf";
  formats::convert_llama2c(folder.write("small.bin", checkpoint_text(true)),
                           folder.write("tok.bin", tokenizer_text()), output);
  const Checkpoint checkpoint = Checkpoint::open(output);
  const model::ModelConfig& config = checkpoint.config();
  EXPECT_STREQ(config.architecture->name, "llama");
  EXPECT_EQ(config.name, "small");
  EXPECT_EQ(config.head_size, 8u);
  EXPECT_EQ(config.kv_heads, 2u);
  EXPECT_EQ(config.context, 5u);
  EXPECT_FLOAT_EQ(config.norm_epsilon, 1e-5f);
  EXPECT_EQ(config.pairs, kernels::RotaryPairs::adjacent);
  EXPECT_EQ(config.is_tied, false);
  const auto first = [&](const char* name) {
    return static_cast<int>(formats::to_floats(*checkpoint.find(name)).front());
  };
  int at = 0;  // the file has each kind of tensor for both layers in turn
  EXPECT_EQ(first("token_embd.weight"), at);
  EXPECT_EQ(first("blk.0.attn_norm.weight"), at += kTokens * kHidden);
  EXPECT_EQ(first("blk.1.attn_norm.weight"), at + kHidden);
  EXPECT_EQ(first("blk.0.attn_q.weight"), at += 2 * kHidden);
  EXPECT_EQ(first("blk.0.attn_k.weight"), at += 2 * kHidden * kHidden);
  EXPECT_EQ(first("blk.1.attn_k.weight"), at + kKeys * kHidden);
  EXPECT_EQ(first("blk.0.attn_v.weight"), at += 2 * kKeys * kHidden);
  EXPECT_EQ(first("blk.0.attn_output.weight"), at += 2 * kKeys * kHidden);
  EXPECT_EQ(first("blk.0.ffn_norm.weight"), at += 2 * kHidden * kHidden);
  EXPECT_EQ(first("blk.0.ffn_gate.weight"), at += 2 * kHidden);
  EXPECT_EQ(first("blk.0.ffn_down.weight"), at += 2 * kHidden * kFeedForward);
  EXPECT_EQ(first("blk.0.ffn_up.weight"), at += 2 * kHidden * kFeedForward);
  EXPECT_EQ(first("output_norm.weight"), at += 2 * kHidden * kFeedForward);
  EXPECT_EQ(first("output.weight"), at += kHidden + kContext * (kHidden / kHeads));

  const formats::GgufFile& file = *checkpoint.gguf();
  EXPECT_EQ(file.get<std::string>("tokenizer.ggml.model"), "llama");
  EXPECT_THAT(file.get<std::vector<std::string>>("tokenizer.ggml.tokens"),
              ElementsAre("<unk>", "<s>", "</s>", "<0x0A>", "▁a", "b▁c"));
  EXPECT_THAT(file.get<std::vector<float>>("tokenizer.ggml.scores"), ElementsAre(5, 5, 6, 6, 2, 3));
  EXPECT_THAT(file.get<std::vector<int>>("tokenizer.ggml.token_type"),
              ElementsAre(2, 3, 3, 6, 1, 1));
  EXPECT_EQ(config.bos_id, 1);
  EXPECT_THAT(config.eos_ids, ElementsAre(2));
  EXPECT_TRUE(file.get<bool>("tokenizer.ggml.add_bos_token"));
  EXPECT_TRUE(file.get<bool>("tokenizer.ggml.add_space_prefix"));
}

TEST(Llama2c, files_that_lie_are_refused_and_nothing_is_written) {
  const TemporaryFolder folder;
  const auto output = folder.path() / "out.gguf";
  const auto refused = [&](const std::string& checkpoint, const std::string& tokenizer,
                           auto... parts) {
    folder.write("small.bin", checkpoint);
    folder.write("tok.bin", tokenizer);
    EXPECT_THAT(
        [&] {
          formats::convert_llama2c(folder.path() / "small.bin", folder.path() / "tok.bin", output);
        },
        ThrowsMessage<BadArgument>(AllOf(HasSubstr(parts)...)));
    EXPECT_FALSE(std::filesystem::exists(output));
  };
  const std::string good = checkpoint_text(false);
  refused(good.substr(0, 10), tokenizer_text(), "small.bin: byte 8: n_layers takes 4 bytes");
  refused(good.substr(0, 3000), tokenizer_text(), "takes", "are left");
  refused(good + "....", tokenizer_text(), "4 bytes follow the last tensor");
  refused(good, tokenizer_text().substr(0, 40), "tok.bin", "token");
  refused(good, tokenizer_text() + "..", "2 bytes follow the last of 6 tokens");
  std::string wrong = good;
  const auto set = [&](std::size_t field, std::int32_t value) {
    wrong = good;
    std::memcpy(&wrong[4 * field], &value, sizeof value);
  };
  set(0, -32);
  refused(wrong, tokenizer_text(), "dim before it is -32");
  set(2, 1 << 30);
  refused(wrong, tokenizer_text(), "n_layers before it is 1073741824; 1 to 1024");
  set(3, 5);
  refused(wrong, tokenizer_text(), "dim 32, n_heads 5");
  set(5, std::numeric_limits<std::int32_t>::min());
  refused(wrong, tokenizer_text(), "vocab_size before it is -2147483648");
}

TEST(Llama2c, what_is_read_is_not_written_over) {
  const TemporaryFolder folder;
  const auto checkpoint = folder.write("small.bin", checkpoint_text(false));
  const auto tokenizer = folder.write("tok.bin", tokenizer_text());
  EXPECT_THAT([&] { formats::convert_llama2c(checkpoint, tokenizer, checkpoint); },
              ThrowsMessage<BadArgument>(HasSubstr("would be written over")));
}

TEST(Llama2c, the_stories_fixture_is_converted) {
  const std::filesystem::path fixture = "../shared/fixtures/stories260k";
  if (!std::filesystem::exists(fixture)) GTEST_SKIP() << fixture << " is not there";
  const TemporaryFolder folder;
  const auto output = folder.path() / "stories.gguf";
  formats::convert_llama2c(fixture / "stories260K.bin", fixture / "tok512.bin", output);
  const Checkpoint checkpoint = Checkpoint::open(output);
  EXPECT_EQ(checkpoint.weights().parameters, 260032u);
  EXPECT_EQ(checkpoint.config().is_tied, true);
  EXPECT_EQ(checkpoint.gguf()->get<std::vector<std::string>>("tokenizer.ggml.tokens")[265], "▁the");
}

}  // namespace
}  // namespace attacca::test
