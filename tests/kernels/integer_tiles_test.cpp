// Tests that each path of integer products gives the same bits.
#include "kernels/linear/host/integer_tiles.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/host/row_block.hpp"
#include "kernels/weights.hpp"

namespace attacca::test {
namespace {

using kernels::Matrix;
using kernels::RowBlock;
using kernels::TensorType;
using kernels::host::integer_paths;
using kernels::host::IntegerPath;
using kernels::host::kTileOutputs;

struct alignas(64) Line {
  std::byte bytes[64];
};

std::vector<float> multiply(const IntegerPath& path, const Matrix& w, std::uint32_t first,
                            std::uint32_t rows, const std::vector<RowBlock>& x, std::uint32_t count,
                            std::uint32_t sections = 1, bool adds = false) {
  std::vector<Line> prepared(x.size() * kernels::host::kPreparedBytes / sizeof(Line) + 1);
  if (path.prepare) path.prepare(x.data(), x.size(), prepared[0].bytes);
  std::vector<Line> panel(kernels::host::panel_bytes(w.columns) / sizeof(Line));
  std::vector<float> out(std::size_t{count} * kTileOutputs, adds ? 0.25f : 0.0f);
  const void* blocks = path.prepare ? static_cast<const void*>(prepared.data()) : x.data();
  path.multiply({w, first, rows, blocks, count, panel[0].bytes, out.data(), sections, adds});
  return out;
}

void expect_equal_paths(const Matrix& w, const std::vector<RowBlock>& x, std::uint32_t count,
                        std::uint32_t sections = 1, bool adds = false) {
  for (const std::uint32_t rows : {32u, 21u, 16u, 5u}) {
    const auto expected = multiply(*integer_paths().back(), w, 3, rows, x, count, sections, adds);
    for (const IntegerPath* path : integer_paths()) {
      const auto out = multiply(*path, w, 3, rows, x, count, sections, adds);
      for (std::uint32_t i = 0; i < count; ++i)
        ASSERT_EQ(
            std::memcmp(&out[i * kTileOutputs], &expected[i * kTileOutputs], rows * sizeof(float)),
            0)
            << path->name << ", " << type_name(w.type) << ", " << count << " rows of x";
    }
  }
}

TEST(IntegerTiles, all_paths_give_the_same_bits) {
  if (integer_paths().size() == 1) GTEST_SKIP() << "this processor has one path";
  for (const TensorType type : kAllTypes) {
    if (!kernels::is_quantized(type)) continue;
    for (const std::uint32_t count : {1u, 2u, 3u, 6u, 12u, 15u}) {
      constexpr std::uint32_t kColumns = 1024;  // four blocks of the longest kind
      const auto bytes = random_weights(type, 35, kColumns, 1);
      const std::vector<float> floats = random_floats(std::size_t{count} * kColumns, 2);
      std::vector<RowBlock> x(floats.size() / 32);
      kernels::to_row_blocks(floats.data(), static_cast<std::uint32_t>(floats.size()), x.data());
      const Matrix w{bytes.data(), type, 35, kColumns};
      expect_equal_paths(w, x, count);
      for (const bool adds : {false, true}) expect_equal_paths(w, x, count, 4, adds);
    }
  }
}

TEST(IntegerTiles, the_largest_products_do_not_overflow) {
  for (const std::int16_t value : {std::int16_t{32639}, std::int16_t{-32639}}) {
    std::vector<RowBlock> x(8);
    for (RowBlock& block : x) {
      block.scale = 1;
      block.sum = 32.0f * value;
      std::fill_n(block.values, 32, value);
    }
    for (const unsigned char byte : {0x80, 0x7f, 0xff}) {
      std::vector<unsigned char> bytes(35 * kernels::row_bytes(TensorType::q8_0, 256), byte);
      for (std::size_t at = 0; at < bytes.size(); at += 34) {  // scale 1
        bytes[at] = 0;
        bytes[at + 1] = 0x3c;
      }
      const Matrix w{bytes.data(), TensorType::q8_0, 35, 256};
      expect_equal_paths(w, x, 1);
      std::vector<RowBlock> rows;
      for (int row = 0; row < 3; ++row) rows.insert(rows.end(), x.begin(), x.end());
      expect_equal_paths(w, rows, 3);
      const auto out = multiply(kernels::host::best_path(), w, 0, 1, x, 1);
      EXPECT_FLOAT_EQ(out[0], 256.0f * static_cast<float>(static_cast<signed char>(byte)) * value);
    }
  }
}

}  // namespace
}  // namespace attacca::test
