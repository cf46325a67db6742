// Tests of how a model's rows are dealt to ranks, and of fingerprints.
#include <gtest/gtest.h>

#include "model/checkpoint.hpp"
#include "model/embedded.hpp"
#include "model/packed_model.hpp"
#include "model/shard.hpp"

namespace attacca::model {
namespace {

TEST(Shard, rows_are_dealt_once_each_also_where_they_do_not_divide) {
  for (const std::uint32_t rows : {1u, 5u, 288u, 32003u})
    for (const int ranks : {1, 2, 3, 4, 7}) {
      std::uint32_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const RowRange range = rows_of(rows, rank, ranks);
        EXPECT_EQ(range.first, next);
        EXPECT_LE(range.count, most_rows(rows, ranks));
        next += range.count;
      }
      EXPECT_EQ(next, rows) << ranks << " ranks";
    }
}

TEST(Shard, ranks_share_heads_of_keys_and_values_if_they_are_more) {
  ModelConfig config;
  config.heads = 8;
  config.kv_heads = 2;
  config.feed_forward = 64;
  EXPECT_EQ(shard_of(config, 2).kv_heads, 1u);
  EXPECT_EQ(shard_of(config, 4).kv_heads, 1u);
  EXPECT_EQ(shard_of(config, 4).heads, 2u);
  EXPECT_EQ(shard_of(config, 4).feed_forward, 16u);
}

TEST(Shard, a_fingerprint_is_the_same_for_the_same_model_only) {
  const Checkpoint small = open_embedded();
  EXPECT_EQ(fingerprint(small), fingerprint(open_embedded()));
  const Checkpoint other = Checkpoint::open("tests/engine/fixtures/llama");
  EXPECT_NE(fingerprint(small), fingerprint(other));
}

TEST(Shard, a_fingerprint_notices_a_difference_inside_a_large_tensor) {
  constexpr std::uint64_t kStride = 256 * 1024;
  std::string file = test::packed_model(kernels::TensorType::f32);
  const Checkpoint model = Checkpoint::parse(test::bytes_of(file), "small");
  const formats::Tensor& large = *model.find("blk.0.ffn_up.weight");
  ASSERT_EQ(large.bytes, 2 * kStride);
  const std::uint64_t whole = fingerprint(model);
  const auto begin =
      static_cast<std::size_t>(reinterpret_cast<const char*>(large.data) - file.data());
  const auto changed = [&](std::uint64_t at) {
    file[begin + at] ^= 1;  // the model is a view of the file
    const std::uint64_t other = fingerprint(model);
    file[begin + at] ^= 1;
    return other;
  };
  for (const std::uint64_t at : {std::uint64_t{0}, kStride, kStride + 63, large.bytes - 1})
    EXPECT_NE(changed(at), whole) << at;
  for (const std::uint64_t at : {std::uint64_t{64}, kStride - 1, kStride + 64, large.bytes - 65})
    EXPECT_EQ(changed(at), whole) << at << " lies between the samples";
  EXPECT_EQ(fingerprint(model), whole);
}

}  // namespace
}  // namespace attacca::model
