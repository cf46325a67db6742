// Tests of models with random weights: the contents of blocks, refusals, and files that open,
// generate text and are the same for any number of threads.
#include "model/random_model.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <attacca/error.hpp>
#include <attacca/llm.hpp>

#include <cmath>
#include <set>

#include "formats/mapped_file.hpp"
#include "kernels/quantization.hpp"
#include "model/embedded.hpp"
#include "model/random_blocks.hpp"
#include "model/shapes.hpp"
#include "model/small_model.hpp"
#include "text/tokenizer/open.hpp"

namespace attacca::test {
namespace {

using kernels::TensorType;
using model::Checkpoint;
using model::RandomBlocks;
using model::RandomModel;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class RandomType : public testing::TestWithParam<TensorType> {};
INSTANTIATE_TEST_SUITE_P(, RandomType,
                         testing::Values(TensorType::f32, TensorType::f16, TensorType::bf16,
                                         TensorType::q8_0, TensorType::q4_0, TensorType::q4_1,
                                         TensorType::q4_k, TensorType::q5_k, TensorType::q6_k),
                         [](const auto& tested) { return kernels::type_name(tested.param); });

TEST_P(RandomType, elements_are_spread_about_zero_as_asked_for) {
  constexpr std::uint32_t kElements = 1u << 16;
  for (const float deviation : {1.0f, 0.01f}) {
    std::vector<std::byte> row(kernels::row_bytes(GetParam(), kElements));
    RandomBlocks(GetParam(), 7, deviation).fill(0, row);
    double sum = 0, squares = 0, largest = 0;
    for (std::uint32_t at = 0; at < kElements; ++at) {
      const double value = kernels::element(GetParam(), row.data(), at);
      sum += value;
      squares += value * value;
      largest = std::max(largest, std::fabs(value));
    }
    EXPECT_NEAR(sum / kElements, 0, 0.02 * deviation);
    EXPECT_NEAR(std::sqrt(squares / kElements), deviation, 0.03 * deviation);
    EXPECT_LT(largest, 4 * deviation);
  }
}

TEST_P(RandomType, a_group_is_the_same_whatever_is_filled_beside_it) {
  const RandomBlocks blocks(GetParam(), 3, 0.5f);
  std::vector<std::byte> all(5 * blocks.group_bytes());
  std::vector<std::byte> some(2 * blocks.group_bytes() + kernels::block_shape(GetParam()).bytes);
  blocks.fill(0, all);
  blocks.fill(2, some);
  EXPECT_TRUE(std::equal(some.begin(), some.end(),
                         all.begin() + static_cast<std::ptrdiff_t>(2 * blocks.group_bytes())));
}

/// A llama of a few layers with the embedded model's tokens and some more.
RandomModel small(TensorType type) {
  RandomModel model{.config = model::shape_called("smollm2-135m"), .weights = type};
  model.config.vocabulary = 5000;
  model.config.hidden = 256;
  model.config.layers = 3;
  model.config.heads = 4;
  model.config.kv_heads = 2;
  model.config.feed_forward = 512;
  return model;
}

class RandomFile : public testing::Test {
 protected:
  std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  std::filesystem::path write(const RandomModel& model, const char* name = "random.gguf") {
    model::write_random_model(model, *words_.gguf(), file(name));
    return file(name);
  }
  const TemporaryFolder folder_;
  const Checkpoint words_ = model::open_embedded();
};

TEST_F(RandomFile, is_the_same_for_every_number_of_threads_and_another_for_another_seed) {
  RandomModel model = small(TensorType::q4_0);
  model.threads = 1;
  const formats::MappedFile one(write(model, "one"));
  model.threads = 3;
  const formats::MappedFile three(write(model, "three"));
  model.seed = 2;
  const formats::MappedFile other(write(model, "other"));
  EXPECT_TRUE(one.text() == three.text());
  EXPECT_TRUE(one.text().size() == other.text().size() && one.text() != other.text());
}

TEST_F(RandomFile, has_a_word_for_every_token_and_reads_text_as_its_tokenizer_does) {
  const text::Tokenizer words = text::open_tokenizer(write(small(TensorType::q8_0)));
  ASSERT_EQ(words.size(), 5000);
  std::set<std::string_view> pieces;
  for (std::int32_t id = 0; id < words.size(); ++id) pieces.insert(words.piece(id));
  EXPECT_EQ(pieces.size(), 5000u);
  EXPECT_EQ(pieces.count(""), 0u);
  const std::string text = "Once upon a time <reserved_4999> 🙂 there was\n";
  EXPECT_EQ(words.decode(words.encode(text)), text);
  EXPECT_EQ(words.encode(text), text::read_tokenizer(*words_.gguf()).encode(text));
  EXPECT_EQ(words.decode(std::vector{4999}), "<reserved_4999>");
}

TEST_F(RandomFile, of_every_type_says_different_things_with_finite_logits) {
  for (unsigned at = 0; at < kernels::kTensorTypes; ++at) {
    const auto type = static_cast<TensorType>(at);
    SCOPED_TRACE(kernels::type_name(type));
    const llm::Model model(write(small(type)).string());
    llm::Engine engine(model, {.device = Device::host(), .slots = 1, .context = 64});
    const llm::Reply reply = engine.generate({.prompt = "Once upon a time",
                                              .max_tokens = 16,
                                              .sampling = {.temperature = 1},
                                              .ignores_end = true,
                                              .logprobs = 0});
    const std::set<std::int32_t> tokens(reply.tokens.begin(), reply.tokens.end());
    EXPECT_GE(tokens.size(), 8u);
    double surprise = 0;
    for (const llm::TokenLogprob& token : reply.logprobs) {
      EXPECT_TRUE(std::isfinite(token.logprob));
      surprise -= token.logprob / 16;
    }
    EXPECT_LT(surprise, 6) << "8.5 would be all 5000 tokens alike";
  }
}

TEST_F(RandomFile, stores_rows_that_are_no_whole_blocks_in_another_type) {
  RandomModel model = small(TensorType::q6_k);
  model.config.feed_forward = 288;
  const Checkpoint found = Checkpoint::open(write(model));
  EXPECT_EQ(found.find("blk.0.ffn_up.weight")->type, TensorType::q6_k);
  EXPECT_EQ(found.find("blk.0.ffn_down.weight")->type, TensorType::q8_0);
  EXPECT_EQ(model::stored_type(TensorType::q4_0, 40), TensorType::bf16);
}

TEST_F(RandomFile, has_a_head_of_its_own_and_norms_where_its_shape_has_them) {
  RandomModel model = small(TensorType::f16);
  model.config.architecture = model::find_architecture("qwen3");
  model.config.is_tied = false;
  const Checkpoint found = Checkpoint::open(write(model));
  EXPECT_NE(found.find("output.weight"), nullptr);
  EXPECT_EQ(formats::to_floats(*found.find("blk.2.attn_k_norm.weight")),
            std::vector<float>(64, 1.0f));
}

TEST_F(RandomFile, refuses_a_tokenizer_that_has_more_tokens_than_the_vocabulary) {
  RandomModel model = small(TensorType::bf16);
  model.config.vocabulary = 4000;
  EXPECT_THAT([&] { write(model); },
              ThrowsMessage<BadArgument>(AllOf(HasSubstr("4096"), HasSubstr("4000"))));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RandomFile, that_cannot_be_written_is_named_with_the_reason_and_leaves_nothing) {
  EXPECT_THAT([&] { write(small(TensorType::bf16), "nowhere/random.gguf"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("nowhere/random.gguf"), HasSubstr("No such"))));
  RandomModel large = small(TensorType::f32);
  large.config.feed_forward = 1u << 31;  // 20 terabytes
  EXPECT_THAT([&] { write(large); },
              ThrowsMessage<Error>(AllOf(HasSubstr("GB free"), HasSubstr("random.gguf"))));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RandomFile, replaces_what_a_link_leads_to_and_nothing_that_is_no_file) {
  const auto of_type = [&](const char* name, std::filesystem::file_type type) {
    return std::filesystem::symlink_status(file(name)).type() == type;
  };
  std::filesystem::create_symlink("random.gguf", file("link"));
  write(small(TensorType::bf16), "link");
  EXPECT_TRUE(of_type("link", std::filesystem::file_type::symlink));
  EXPECT_TRUE(of_type("random.gguf", std::filesystem::file_type::regular));
  std::filesystem::create_directory(file("folder"));
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  for (const char* name : {"folder", "pipe"})
    EXPECT_THAT([&] { write(small(TensorType::bf16), name); },
                ThrowsMessage<BadArgument>(AllOf(HasSubstr(name), HasSubstr("name a file"))));
  EXPECT_TRUE(of_type("pipe", std::filesystem::file_type::fifo));
  EXPECT_FALSE(std::filesystem::exists(file("folder.part")));
}

TEST(Shapes, an_unknown_one_is_refused_with_the_known_ones) {
  EXPECT_THAT([] { model::shape_called("llama-2b"); },
              ThrowsMessage<BadArgument>(
                  AllOf(HasSubstr("'llama-2b'"), HasSubstr("llama-1b, llama-8b, qwen3-8b"))));
}

}  // namespace
}  // namespace attacca::test
