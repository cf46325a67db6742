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
using kernels::host::IntegerPath;
using kernels::host::kTileOutputs;

struct alignas(64) Line {
  std::byte bytes[64];
};

std::vector<float> multiply(const IntegerPath& path, const Matrix& w, std::uint32_t first,
                            std::uint32_t rows, const std::vector<RowBlock>& x,
                            std::uint32_t count) {
  std::vector<Line> prepared(x.size() * kernels::host::kPreparedBytes / sizeof(Line) + 1);
  if (path.prepare) path.prepare(x.data(), x.size(), prepared[0].bytes);
  std::vector<Line> panel(kernels::host::panel_bytes(w.columns) / sizeof(Line));
  std::vector<float> out(std::size_t{count} * kTileOutputs);
  const void* blocks = path.prepare ? static_cast<const void*>(prepared.data()) : x.data();
  path.multiply({w, first, rows, blocks, count, panel[0].bytes, out.data()});
  return out;
}

void expect_equal_paths(const Matrix& w, const std::vector<RowBlock>& x, std::uint32_t count) {
  const IntegerPath* dotprod = kernels::host::dotprod_path();
  if (!dotprod) GTEST_SKIP() << "this processor has one path";
  for (const std::uint32_t rows : {32u, 5u}) {
    const auto one = multiply(*dotprod, w, 3, rows, x, count);
    const auto other = multiply(kernels::host::portable_path(), w, 3, rows, x, count);
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_EQ(std::memcmp(&one[i * kTileOutputs], &other[i * kTileOutputs], rows * sizeof(float)),
                0)
          << type_name(w.type) << ", " << count << " rows of x";
  }
}

TEST(IntegerTiles, all_paths_give_the_same_bits) {
  for (const TensorType type : kAllTypes) {
    if (!kernels::is_quantized(type)) continue;
    for (const std::uint32_t count : {1u, 2u, 3u, 6u}) {
      constexpr std::uint32_t kColumns = 512;
      const auto bytes = random_weights(type, 35, kColumns, 1);
      const std::vector<float> floats = random_floats(std::size_t{count} * kColumns, 2);
      std::vector<RowBlock> x(floats.size() / 32);
      kernels::to_row_blocks(floats.data(), static_cast<std::uint32_t>(floats.size()), x.data());
      expect_equal_paths({bytes.data(), type, 35, kColumns}, x, count);
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
      const auto out = multiply(kernels::host::best_path(), w, 0, 1, x, 1);
      EXPECT_FLOAT_EQ(out[0], 256.0f * static_cast<float>(static_cast<signed char>(byte)) * value);
    }
  }
}

}  // namespace
}  // namespace attacca::test
