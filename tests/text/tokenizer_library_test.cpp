// Tests of the tokenizer against others: the `tokenizers` and `sentencepiece` libraries on 20,480
// strings (make_tokenizer_cases.py wrote hashes of their results), and the goldens of Qwen2.5.
#include <gtest/gtest.h>
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/tokenizer/tokenizer.hpp"

namespace attacca::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const std::string kFixtures = "tests/text/fixtures/tokenizer_";
const std::string kQwenFolder = "../shared/fixtures/tokenizers/qwen2.5/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// The strings of the fixtures; some are broken UTF-8.
std::vector<std::string> strings() {
  const std::string all = read(kFixtures + "strings.bin");
  std::vector<std::string> result;
  for (std::size_t at = 0; at + 2 <= all.size();) {
    std::uint16_t length = 0;
    std::memcpy(&length, all.data() + at, sizeof length);
    result.push_back(all.substr(at + 2, length));
    at += 2u + length;
  }
  return result;
}

std::uint64_t fnv(std::string_view bytes) {
  std::uint64_t state = 0xCBF29CE484222325u;
  for (const char byte : bytes) state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  return state;
}

constexpr std::size_t kHashBytes = 6;

std::uint32_t hash_of_ids(const Ids& ids) {
  const std::uint64_t state =
      fnv({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(std::int32_t)});
  return static_cast<std::uint32_t>(state ^ (state >> 32));
}

/// The hash of three decodings of the ids: in order, backwards (which breaks characters) and
/// without special tokens.
std::uint16_t hash_of_texts(const Tokenizer& tokenizer, const Ids& ids) {
  const Ids backwards(ids.rbegin(), ids.rend());
  const std::uint64_t state = fnv(tokenizer.decode(ids) + "\xFF" + tokenizer.decode(backwards) +
                                  "\xFF" + tokenizer.decode(ids, true));
  return static_cast<std::uint16_t>(state ^ (state >> 16) ^ (state >> 32));
}

struct Hashes {
  std::uint32_t ids;
  std::uint16_t texts;
};

Hashes hashes_at(std::string_view bytes, std::size_t index) {
  Hashes hashes{};
  std::memcpy(&hashes.ids, bytes.data() + index * kHashBytes, 4);
  std::memcpy(&hashes.texts, bytes.data() + index * kHashBytes + 4, 2);
  return hashes;
}

/// Compares with the library's hashes, and shows the first few strings that differ.
void compare(const Tokenizer& tokenizer, std::string_view expected,
             const std::vector<std::string>& texts, bool decodes = true) {
  const std::size_t count = expected.size() / kHashBytes;
  ASSERT_GT(count, 0u);
  ASSERT_LE(count, texts.size());
  std::size_t wrong_ids = 0;
  std::size_t wrong_texts = 0;
  for (std::size_t index = 0; index < count; ++index) {
    const Ids ids = tokenizer.encode(texts[index]);
    const Hashes wanted = hashes_at(expected, index);
    if (hash_of_ids(ids) != wanted.ids && ++wrong_ids <= 3)
      ADD_FAILURE() << "string " << index << ": " << testing::PrintToString(texts[index]) << " -> "
                    << testing::PrintToString(ids);
    else if (decodes && hash_of_texts(tokenizer, ids) != wanted.texts && ++wrong_texts <= 3)
      ADD_FAILURE() << "decoding string " << index << ": " << testing::PrintToString(texts[index]);
  }
  EXPECT_EQ(wrong_ids, 0u);
  EXPECT_EQ(wrong_texts, 0u);
}

class AgainstLibrary : public testing::TestWithParam<const char*> {};

TEST_P(AgainstLibrary, every_string_has_the_same_ids_and_decodes_to_the_same_text) {
  const std::string path = kFixtures + GetParam();
  compare(Tokenizer::from_json(read(path + ".json")), read(path + ".bin"), strings());
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, AgainstLibrary,
                         testing::Values("qwen", "llama3", "gpt2", "spm"),
                         [](const auto& test) { return std::string(test.param); });

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(at, 2)), nullptr, 16));
  return bytes;
}

TEST(Tokenizer, every_kind_of_step_does_what_the_library_does) {
  const json base = json::parse(read(kFixtures + "qwen.json"));
  const std::vector<std::string> texts = strings();
  for (const json& variant : json::parse(read(kFixtures + "variants.json"))) {
    SCOPED_TRACE(variant["name"].get<std::string>());
    json changed = base;
    changed.update(variant["change"]);
    compare(Tokenizer::from_json(changed.dump()), from_hex(variant["expected"].get<std::string>()),
            texts, variant["decodes"]);
  }
}

/// A tokenizer.json as GGUF metadata. REQUIRES: the JSON outlives the result.
Vocabulary vocabulary_of(const json& data, const std::string& pre) {
  Vocabulary vocabulary{.model = "gpt2", .pre = pre};
  const auto put = [&](const std::string& spelling, std::size_t id, std::int32_t type) {
    if (vocabulary.tokens.size() <= id) {
      vocabulary.tokens.resize(id + 1);
      vocabulary.types.resize(id + 1);
    }
    vocabulary.tokens[id] = spelling;
    vocabulary.types[id] = type;
  };
  for (const auto& [spelling, id] : data["model"]["vocab"].items()) put(spelling, id, 1);
  for (const json& token : data["added_tokens"])
    put(token["content"].get_ref<const std::string&>(), token["id"], token["special"] ? 3 : 4);
  return vocabulary;
}

TEST(Tokenizer, a_byte_level_vocabulary_of_a_gguf_gives_the_ids_of_its_tokenizer_json) {
  const std::vector<std::string> texts = strings();
  for (const auto& [name, pre] : {std::pair{"qwen", "qwen2"}, std::pair{"llama3", "llama-bpe"}}) {
    const json data = json::parse(read(kFixtures + name + ".json"));
    Vocabulary vocabulary = vocabulary_of(data, pre);
    std::vector<std::string> merges;
    for (const json& merge : data["model"]["merges"])
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    vocabulary.merges.assign(merges.begin(), merges.end());
    compare(Tokenizer::from_vocabulary(vocabulary, "test.gguf"),
            read(kFixtures + name + ".bin").substr(0, 4096 * kHashBytes), texts);
  }
}

TEST(Tokenizer, a_sentence_piece_vocabulary_of_a_gguf_gives_the_ids_of_the_library) {
  const json data = json::parse(read(kFixtures + "pieces.json"));
  const auto tokens = data["tokens"].get<std::vector<std::string>>();
  const Tokenizer tokenizer =
      Tokenizer::from_vocabulary({.model = "llama",
                                  .tokens = {tokens.begin(), tokens.end()},
                                  .scores = data["scores"].get<std::vector<float>>(),
                                  .types = data["types"].get<Ids>(),
                                  .bos = 1,
                                  .eos = 2,
                                  .unknown = 0},
                                 "test.gguf");
  const std::string expected = read(kFixtures + "pieces.bin");
  const std::vector<std::string> texts = strings();
  std::size_t wrong = 0;
  for (std::size_t index = 0; index < texts.size(); ++index) {
    // The library recognises no control token in text.
    const Ids ids = tokenizer.encode(texts[index], {.parse_special = false});
    if (hash_of_ids(ids) != hashes_at(expected, index).ids && ++wrong <= 3)
      ADD_FAILURE() << testing::PrintToString(texts[index]) << " -> "
                    << testing::PrintToString(ids);
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(Tokenizer, the_goldens_of_qwen_are_met) {
  if (!std::filesystem::exists(kQwenFolder + "tokenizer.json"))
    GTEST_SKIP() << kQwenFolder << "tokenizer.json is not there";
  const Tokenizer tokenizer = Tokenizer::from_json(read(kQwenFolder + "tokenizer.json"),
                                                   read(kQwenFolder + "tokenizer_config.json"));
  EXPECT_EQ(tokenizer.eos(), tokenizer.find("<|im_end|>"));
  EXPECT_EQ(tokenizer.bos(), -1);
  std::string inputs = read(kQwenFolder + "golden.inp");
  std::istringstream outputs(read(kQwenFolder + "golden.out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::string line; std::getline(outputs, line); ++count) {
    std::istringstream numbers(line);
    const Ids wanted{std::istream_iterator<std::int32_t>(numbers), {}};
    const std::size_t end = inputs.find(separator);
    const std::string text = inputs.substr(0, end);
    EXPECT_EQ(tokenizer.encode(text), wanted) << text;
    EXPECT_EQ(tokenizer.decode(wanted), text);
    inputs.erase(0, end == std::string::npos ? end : end + separator.size());
  }
  EXPECT_GT(count, 40u);
  EXPECT_EQ(inputs, "");
}

}  // namespace
}  // namespace attacca::text
