// Tests of the safetensors reader: a file of the format's own library, shards, and corrupt files.
// tests/formats/make_safetensors.py makes the fixture.
#include "formats/safetensors.hpp"

#include <gmock/gmock.h>
#include <attacca/error.hpp>

#include <cstring>
#include <functional>
#include <random>

#include "fuzz/read_all.hpp"
#include "tests/model/small_folder.hpp"

namespace attacca::test {
namespace {

using formats::Safetensors;
using formats::Tensor;
using kernels::TensorType;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

std::vector<Tensor> parse(std::string_view text) {
  return formats::parse_safetensors(bytes_of(text), "test.safetensors");
}

/// A file: the header's length, the header padded to align the data, and `bytes` of data.
std::string file_of(std::string header, std::size_t bytes) {
  header.append((8 - header.size() % 8) % 8, ' ');
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
         std::string(bytes, '\0');
}

std::string one(const json& dtype, const json& shape, const json& offsets) {
  return file_of(
      json{{"t", {{"dtype", dtype}, {"shape", shape}, {"data_offsets", offsets}}}}.dump(), 64);
}

template <class... Parts>
void expect_refused(std::string_view text, Parts... parts) {
  EXPECT_THAT([&] { parse(text); }, ThrowsMessage<BadArgument>(
                                        AllOf(HasSubstr("test.safetensors"), HasSubstr(parts)...)));
}

TEST(Safetensors, reads_what_the_formats_own_library_wrote) {
  const Safetensors file = Safetensors::open("tests/formats/fixtures/types.safetensors");
  ASSERT_EQ(file.tensors().size(), 4u);
  const Tensor* single = file.tensor("a.f32");
  ASSERT_NE(single, nullptr);
  EXPECT_EQ(single->type, TensorType::f32);
  EXPECT_THAT(single->shape, ElementsAre(2, 3));
  const auto values = ElementsAre(1, -2, 0.5f, 65504, -0.f, 0x1p-24f);
  EXPECT_THAT(formats::to_floats(*single), values);
  EXPECT_EQ(file.tensor("b.f16")->type, TensorType::f16);
  EXPECT_THAT(formats::to_floats(*file.tensor("b.f16")), values);
  EXPECT_EQ(file.tensor("c.bf16")->type, TensorType::bf16);
  EXPECT_THAT(formats::to_floats(*file.tensor("c.bf16")), ElementsAre(1, -2, 3.140625f, 0));
  EXPECT_THAT(file.tensor("d.scalar")->shape, IsEmpty());
  EXPECT_THAT(formats::to_floats(*file.tensor("d.scalar")), ElementsAre(7));
  EXPECT_EQ(file.tensor("e"), nullptr);
}

TEST(Safetensors, a_header_that_lies_about_its_length_is_refused) {
  expect_refused("", "byte 0: header length: 8 bytes are needed and 0 are there");
  expect_refused(std::string(8, '\xff'), "byte 0: header length 18446744073709551615: at most 0");
  expect_refused(file_of("{}", 0).substr(0, 12), "header length 8: at most 4");
}

TEST(Safetensors, a_header_that_is_not_the_right_json_is_refused) {
  expect_refused(file_of("{\"a\": ", 0), "byte", "not JSON");
  expect_refused(file_of("[]", 0), "byte 8: header: a JSON object is expected");
  expect_refused(file_of("{\"a\": 1e999}", 0), "not usable JSON");
  expect_refused(file_of("{\"a\": {\"b\": [[]]}}", 0), "nested deeper than 3");
  expect_refused(file_of(std::string(100'000, '['), 0), "nested deeper than 3");
  expect_refused(file_of("{\"a\": 1, \"a\": 2}", 0), "key 'a' is there twice");
  expect_refused(file_of("{\"a\": 1}", 0), "tensor 'a': entry '1': an object is expected");
}

TEST(Safetensors, entries_that_cannot_be_are_refused) {
  EXPECT_EQ(parse(one("F32", {4, 4}, {0, 64})).size(), 1u);
  expect_refused(file_of("{\"t\": {}}", 0), "tensor 't': dtype is missing");
  expect_refused(one("I64", {8}, {0, 64}), "'t': dtype '\"I64\"': F32, F16 and BF16 are supported");
  expect_refused(one(7, {8}, {0, 64}), "'t': dtype '7'");
  expect_refused(one("F32", {-4}, {0, 16}), "shape '[-4]': a list of whole numbers");
  expect_refused(one("F32", {1.5}, {0, 16}), "shape '[1.5]'");
  expect_refused(one("F32", 4, {0, 16}), "shape '4'");
  expect_refused(one("F32", {1ull << 32, 1ull << 32}, {0, 64}), "shape", "too large");
  expect_refused(one("F32", {1ull << 62}, {0, 64}), "shape", "too large");
  expect_refused(one("F32", {4, 0}, {0, 0}), "shape '[4,0]': the tensor is empty");
  expect_refused(one("F32", {4}, {0, 12}), "data_offsets '[0,12]': 12 bytes, but [4] of F32 takes");
  expect_refused(one("F32", {4}, {16, 0}), "data_offsets '[16,0]'");
  expect_refused(one("F32", {4}, {0}), "data_offsets '[0]': [begin, end]");
  expect_refused(one("F32", {4}, {56, 72}), "data_offsets '[56,72]'", "64 bytes of data");
  expect_refused(one("F32", {4}, {2, 18}), "is not a multiple of 4");
}

TEST(Safetensors, tensors_that_share_bytes_are_refused) {
  const auto entry = [](int begin, int end) {
    return json{{"dtype", "F16"}, {"shape", {(end - begin) / 2}}, {"data_offsets", {begin, end}}};
  };
  EXPECT_NO_THROW(parse(file_of(json{{"a", entry(32, 64)}, {"b", entry(0, 30)}}.dump(), 64)));
  expect_refused(file_of(json{{"a", entry(30, 64)}, {"b", entry(0, 32)}}.dump(), 64),
                 "tensor 'a': data_offsets: its bytes are also those of 'b'");
}

TEST(Safetensors, shards_are_one_model) {
  const SmallModel small("llama", false, true);
  const auto is_first = [](const std::string& name) { return name.size() % 2 == 0; };
  const TemporaryFolder folder;
  folder.write("one.safetensors", safetensors_of(small, is_first));
  folder.write("two.safetensors", safetensors_of(small, std::not_fn(is_first)));
  json map;
  for (const auto& [name, shape] : small.shapes)
    map[name] = is_first(name) ? "one.safetensors" : "two.safetensors";
  const auto write_index = [&] {
    folder.write("model.safetensors.index.json", json{{"weight_map", map}}.dump());
  };
  write_index();

  std::vector<std::string> told;
  std::uint64_t done = 0, total = 0;
  const Safetensors file = Safetensors::open(
      folder.path(), [&](std::string_view what, std::uint64_t now, std::uint64_t all) {
        told.emplace_back(what);
        EXPECT_GT(now, done);
        done = now;
        total = all;
      });
  EXPECT_THAT(told, ElementsAre("one.safetensors", "two.safetensors"));
  EXPECT_EQ(done, total);
  EXPECT_EQ(file.tensors().size(), small.shapes.size());
  for (const auto& [name, values] : small.values)
    EXPECT_EQ(formats::to_floats(*file.tensor(name)), values) << name;

  const auto refused = [&](auto... parts) {
    EXPECT_THAT([&] { Safetensors::open(folder.path()); },
                ThrowsMessage<BadArgument>(AllOf(HasSubstr(parts)...)));
  };
  map["extra"] = "one.safetensors";
  write_index();
  refused("weight_map: 'extra' is not in '\"one.safetensors\"'");
  map["extra"] = "three.safetensors";
  write_index();
  refused("shard 'three.safetensors': No such file", "is the download complete?");
  map["extra"] = "../one.safetensors";
  write_index();
  refused("'extra' is in '\"../one.safetensors\"'; a file name is expected");
  map["extra"] = "four.safetensors";
  write_index();
  folder.write("four.safetensors", safetensors_of(small, is_first));
  refused("is in an earlier shard too");
  folder.write("model.safetensors.index.json", "{}");
  refused("'weight_map' is absent");
}

TEST(Safetensors, a_folder_without_weights_is_refused) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { Safetensors::open(folder.path()); },
              ThrowsMessage<BadArgument>(HasSubstr("neither model.safetensors nor")));
}

TEST(Safetensors, thousands_of_damaged_files_are_read_or_refused) {
  const SmallModel small("qwen2", false, false);
  const auto is_in = [](const std::string& name) { return name.find("layers.1") == name.npos; };
  const std::string text = safetensors_of(small, is_in);
  std::uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof header);
  std::mt19937 random(5);
  unsigned readable = 0;
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = text;
    for (std::uint32_t flips = 1 + random() % 3; flips > 0; --flips) {
      constexpr std::string_view kLetters = "0123456789[]{},:\"-e.F";
      char& byte = damaged[random() % (8 + header)];
      byte = random() % 4 ? kLetters[random() % kLetters.size()] : static_cast<char>(random());
    }
    if (round % 5 == 0) damaged.resize(random() % damaged.size());
    try {
      readable += read_all(parse(damaged)) != 0;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(readable, 0u);
}

}  // namespace
}  // namespace attacca::test
