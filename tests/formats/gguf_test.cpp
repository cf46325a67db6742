// Tests of the GGUF reader: files of another writer, attacca's own, and corrupt files.
// tests/formats/make_gguf.py makes the fixture.
#include "formats/gguf.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <cctype>
#include <random>

#include "formats/gguf_writer.hpp"
#include "fuzz/read_all.hpp"
#include "tests/model/small_model.hpp"

namespace attacca::test::gguf_test {
namespace {

using formats::GgufFile;
using formats::GgufType;
using formats::GgufWriter;
using kernels::TensorType;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr const char* kFixture = "tests/formats/fixtures/metadata.gguf";

GgufFile parse(std::string_view text) { return GgufFile::parse(bytes_of(text), "test.gguf"); }

template <class... Parts>
void expect_refused(std::string_view text, Parts... parts) {
  EXPECT_THAT([&] { parse(text); }, ThrowsMessage<BadArgument>(AllOf(HasSubstr(parts)...)));
}

/// A file built field by field.
struct Raw {
  std::string text = "GGUF";

  template <class T>
  Raw& put(T number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }
  Raw& string(std::string_view value) {
    put(std::uint64_t{value.size()});
    text += value;
    return *this;
  }
  Raw& type(GgufType value) { return put(static_cast<std::uint32_t>(value)); }
  static Raw header(std::uint64_t tensors, std::uint64_t values) {
    Raw raw;
    return raw.put(std::uint32_t{3}).put(tensors).put(values);
  }
  /// One tensor of F32.
  Raw& tensor(std::string_view name, std::vector<std::uint64_t> dimensions, std::uint64_t offset,
              std::uint32_t type_number = 0) {
    string(name).put(static_cast<std::uint32_t>(dimensions.size()));
    for (const std::uint64_t size : dimensions) put(size);
    return put(type_number).put(offset);
  }
  Raw& data(std::size_t bytes) {
    text.append((32 - text.size() % 32) % 32 + bytes, '\0');
    return *this;
  }
};

TEST(Gguf, reads_every_type_of_metadata_that_another_writer_wrote) {
  const GgufFile file = GgufFile::open(kFixture);
  EXPECT_EQ(file.get<std::string_view>("general.architecture"), "test");
  EXPECT_EQ(file.get<std::uint8_t>("test.uint8"), 200);
  EXPECT_EQ(file.get<std::int8_t>("test.int8"), -100);
  EXPECT_EQ(file.get<std::uint16_t>("test.uint16"), 60000);
  EXPECT_EQ(file.get<std::int16_t>("test.int16"), -30000);
  EXPECT_EQ(file.get<std::uint32_t>("test.uint32"), 4000000000u);
  EXPECT_EQ(file.get<std::int32_t>("test.int32"), -2000000000);
  EXPECT_EQ(file.get<std::uint64_t>("test.uint64"), std::uint64_t{1} << 63);
  EXPECT_EQ(file.get<std::int64_t>("test.int64"), -(std::int64_t{1} << 62));
  EXPECT_EQ(file.get<float>("test.float32"), 1.5f);
  EXPECT_EQ(file.get<double>("test.float64"), 0.1);
  EXPECT_TRUE(file.get<bool>("test.bool"));
  EXPECT_EQ(file.get<std::string>("test.string"), "naïve ▁ text");
  EXPECT_THAT(file.get<std::vector<std::int32_t>>("test.array.int"), ElementsAre(1, -2, 3));
  EXPECT_THAT(file.get<std::vector<float>>("test.array.float"), ElementsAre(0.5f, -0.25f));
  EXPECT_THAT(file.get<std::vector<bool>>("test.array.bool"), ElementsAre(true, false));
  EXPECT_THAT(file.get<std::vector<std::string_view>>("test.array.string"),
              ElementsAre("a", "bc", "ünï"));
  EXPECT_EQ(file.metadata().size(), 17u);
}

TEST(Gguf, reads_tensors_of_every_type) {
  const GgufFile file = GgufFile::open(kFixture);
  EXPECT_THAT(formats::to_floats(*file.tensor("vector.f32")), ElementsAre(1, 2, 3));
  for (unsigned number = 0; number < kernels::kTensorTypes; ++number) {
    const auto type = static_cast<TensorType>(number);
    std::string name = std::string("ramp.") + kernels::type_name(type);
    for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
    SCOPED_TRACE(name);
    const formats::Tensor* tensor = file.tensor(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type, type);
    EXPECT_THAT(tensor->shape, ElementsAre(2, 256));
    EXPECT_EQ(tensor->bytes, 2 * kernels::row_bytes(type, 256));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor->data) % file.alignment(), 0u);
    EXPECT_EQ(formats::matrix_of(*tensor).bytes(), tensor->bytes);
    if (kernels::is_quantized(type)) continue;
    const std::vector<float> floats = formats::to_floats(*tensor);
    for (std::size_t at = 0; at < floats.size(); ++at)
      EXPECT_NEAR(floats[at], static_cast<float>(at) / 64 - 4, type == TensorType::bf16 ? 0.02 : 0);
  }
  EXPECT_EQ(std::to_integer<int>(file.tensor("ramp.q6_k")->data[250]), 250);
  EXPECT_THROW(formats::to_floats(*file.tensor("ramp.q4_0")), BadArgument);
  EXPECT_EQ(file.tensor("ramp"), nullptr);
}

TEST(Gguf, what_our_writer_wrote_is_read_back) {
  const std::vector<float> floats = {1, 2, 3, 4, 5, 6};
  GgufWriter writer;
  writer.set("a", std::uint16_t{7});
  writer.set("b", "text");
  writer.set("c", std::vector<std::string>{"x", "", "yz"});
  writer.set("d", std::vector<double>{0.5, 2});
  writer.set("e", false);
  writer.add("odd", {3}, std::span(floats).first(3));
  writer.add("matrix", {2, 3}, floats);
  const std::string text = text_of(writer);
  const GgufFile file = parse(text);
  EXPECT_EQ(file.get<std::uint32_t>("a"), 7u);
  EXPECT_EQ(file.get<std::string>("b"), "text");
  EXPECT_THAT(file.get<std::vector<std::string>>("c"), ElementsAre("x", "", "yz"));
  EXPECT_THAT(file.get<std::vector<float>>("d"), ElementsAre(0.5f, 2.f));
  EXPECT_FALSE(file.get<bool>("e"));
  EXPECT_EQ(file.find<bool>("f"), std::nullopt);
  EXPECT_THAT(file.tensor("matrix")->shape, ElementsAre(2, 3));
  EXPECT_EQ(formats::to_floats(*file.tensor("matrix")), floats);
  EXPECT_THROW(writer.add("wrong", {2, 2}, floats), BadArgument);
}

TEST(Gguf, a_file_that_was_moved_still_points_at_its_bytes) {
  GgufFile first = GgufFile::open(kFixture);
  const GgufFile second = std::move(first);
  EXPECT_EQ(second.get<std::uint8_t>("test.uint8"), 200);
  EXPECT_NE(read_all(second), 0u);
}

TEST(Gguf, a_value_of_another_type_is_refused_with_key_and_both_types) {
  const GgufFile file = GgufFile::open(kFixture);
  const auto message = [](auto... parts) {
    return ThrowsMessage<BadArgument>(AllOf(HasSubstr(kFixture), HasSubstr(parts)...));
  };
  EXPECT_THAT([&] { file.get<std::uint32_t>("test.string"); },
              message("'test.string'", "string", "uint32 is expected"));
  EXPECT_THAT([&] { file.get<std::uint8_t>("test.uint32"); },
              message("'test.uint32'", "uint32, 4000000000", "uint8 is expected"));
  EXPECT_THAT([&] { file.get<std::uint32_t>("test.int8"); }, message("int8, -100"));
  EXPECT_THAT([&] { file.get<float>("test.array.int"); }, message("array of int32", "3 elements"));
  EXPECT_THAT([&] { file.get<std::vector<float>>("test.array.string"); },
              message("array of string", "array of float is expected"));
  EXPECT_THAT([&] { file.get<bool>("no.such"); }, message("'no.such' (boolean) is missing"));
}

TEST(Gguf, another_kind_of_file_is_refused) {
  expect_refused("", "test.gguf: byte 0: magic", "4 bytes are needed and 0 are left");
  expect_refused("PK\3\4....................", "magic", "is not \"GGUF\"");
  expect_refused(Raw().put(std::uint32_t{2}).put(std::uint64_t{}).text, "byte 4: version: 2");
  expect_refused(Raw().put(std::uint32_t{3u << 24}).text, "big-endian");
}

TEST(Gguf, counts_and_lengths_that_lie_are_refused_before_anything_is_allocated) {
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  expect_refused(Raw::header(kHuge, 0).text, "byte 8: tensor count: 18446744073709551615");
  expect_refused(Raw::header(0, kHuge / 2).text, "byte 16: metadata count");
  expect_refused(Raw::header(0, 1).put(kHuge).put(kHuge).text, "metadata 0: key",
                 "18446744073709551615 bytes are needed and 8 are left");
  expect_refused(Raw::header(0, 1).string("k").type(GgufType::string).put(std::uint64_t{1000}).text,
                 "byte 45: metadata 0 'k': value: 1000 bytes are needed and 0 are left");
  expect_refused(Raw::header(0, 1)
                     .string("k")
                     .type(GgufType::array)
                     .type(GgufType::uint64)
                     .put(kHuge / 8 + 2)
                     .text,
                 "byte 41: metadata 0 'k': element count", "cannot fit in the 0 bytes");
}

TEST(Gguf, values_that_cannot_be_are_refused) {
  expect_refused(Raw::header(0, 1).string("k").put(std::uint32_t{13}).text, "'k': type: 13 is no");
  expect_refused(Raw::header(0, 1).string("k").type(GgufType::boolean).put(std::uint8_t{2}).text,
                 "byte 37: metadata 0 'k': value: 2 is no boolean");
  expect_refused(Raw::header(0, 1)
                     .string("k")
                     .type(GgufType::array)
                     .type(GgufType::array)
                     .put(std::uint64_t{0})
                     .text,
                 "byte 37: metadata 0 'k': element type: an array of arrays is not supported");
  expect_refused(Raw::header(0, 2)
                     .string("k")
                     .type(GgufType::uint8)
                     .put(std::uint8_t{1})
                     .string("k")
                     .type(GgufType::uint8)
                     .put(std::uint8_t{1})
                     .text,
                 "metadata 1 'k': key: an earlier entry has the same");
  for (const std::uint32_t alignment : {0u, 4u, 48u, 1u << 31})
    expect_refused(
        Raw::header(0, 1).string("general.alignment").type(GgufType::uint32).put(alignment).text,
        "general.alignment", "is not a power of two from 8");
}

TEST(Gguf, tensors_that_cannot_be_are_refused) {
  const auto one = [](std::vector<std::uint64_t> dimensions, std::uint64_t offset,
                      std::uint32_t type = 0) {
    return Raw::header(1, 0).tensor("t", std::move(dimensions), offset, type).data(64).text;
  };
  EXPECT_NO_THROW(parse(one({16}, 0)));
  expect_refused(one({}, 0), "byte 33: tensor 0 't': dimension count: 0");
  expect_refused(one({1, 1, 1, 1, 1}, 0), "dimension count: 5 is not between 1 and 4");
  expect_refused(one({4, 0}, 0), "dimensions: one is 0");
  expect_refused(one({1ull << 32, 1ull << 32}, 0), "dimensions", "too large");
  expect_refused(one({1ull << 62, 1}, 0), "dimensions", "too large");
  expect_refused(one({33}, 0, 2), "[33] of Q4_0", "whole blocks of 32");
  expect_refused(one({16}, 0, 10), "type: 10 is not supported; 0 (F32)", "14 (Q6_K), 30 (BF16)");
  expect_refused(one({16}, 16), "offset: 16 is not a multiple of the alignment 32");
  expect_refused(one({16}, 32), "offset: 64 bytes from 32 are outside the 64 bytes of data");
  expect_refused(one({16}, ~std::uint64_t{31}), "offset: 64 bytes from");
}

TEST(Gguf, tensors_that_share_bytes_or_a_name_are_refused) {
  const auto two = [](const char* name, std::uint64_t first, std::uint64_t second) {
    return Raw::header(2, 0).tensor("t", {16}, first).tensor(name, {16}, second).data(128).text;
  };
  EXPECT_NO_THROW(parse(two("u", 64, 0)));
  expect_refused(two("u", 0, 32), "tensor 1 'u': offset: 32 is inside tensor 't', 64 bytes from 0");
  expect_refused(two("u", 32, 0), "tensor 0 't': offset: 32 is inside tensor 'u'");
  expect_refused(two("t", 0, 64), "tensor 1 't': name: an earlier tensor has the same");
}

TEST(Gguf, names_in_messages_are_made_printable) {
  expect_refused(Raw::header(0, 1).string("a\x1b[2Jb").put(std::uint32_t{99}).text, "'a\\x1b[2Jb'");
}

TEST(Gguf, a_file_that_cannot_be_opened_is_named_with_the_reason) {
  EXPECT_THAT([] { GgufFile::open("no/such.gguf"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("no/such.gguf"), HasSubstr("No such file"))));
  EXPECT_THAT([] { GgufFile::open("tests"); }, ThrowsMessage<Error>(HasSubstr("directory")));
  const TemporaryFolder folder;
  EXPECT_THAT([&] { GgufFile::open(folder.write("empty.gguf", "")); },
              ThrowsMessage<BadArgument>(HasSubstr("magic")));
}

TEST(Gguf, every_truncation_is_refused) {
  const SmallModel small("qwen3", true, false);
  GgufWriter writer;
  writer.set("a", std::vector<std::string>{"x", "yz"});
  writer.set("b", std::uint32_t{1});
  writer.add("t", {2, 16}, std::span(small.values.begin()->second).first(32));
  const std::string text = text_of(writer);
  read_all(parse(text));
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse(std::string(text, 0, length)), BadArgument) << length;
}

TEST(Gguf, thousands_of_damaged_files_are_read_or_refused) {
  SmallModel small("llama", true, false);
  std::erase_if(small.shapes, [](const auto& entry) {  // norms and the embedding are enough
    return entry.second.size() > 1 && entry.first != "token_embd.weight";
  });
  const std::string text = text_of(small.writer());
  std::mt19937 random(11);
  unsigned readable = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (std::uint32_t flips = 1 + random() % 4; flips > 0; --flips) {
      const std::size_t at = random() % 900;  // in the header
      constexpr char kExtremes[] = {'\0', '\1', '\x7f', '\xff'};
      damaged[at] = random() % 2 ? kExtremes[random() % 4] : static_cast<char>(random());
    }
    try {
      const GgufFile file = parse(damaged);
      read_all(file);
      ++readable;
      model::config_from_gguf(file);
    } catch (const Error&) {
    }
  }
  EXPECT_GT(readable, 0u);
}

}  // namespace
}  // namespace attacca::test::gguf_test
