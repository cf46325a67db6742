// Tests of how a model's rows are dealt to ranks, and of fingerprints.
#include <gtest/gtest.h>

#include "model/checkpoint.hpp"
#include "model/embedded.hpp"
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

}  // namespace
}  // namespace attacca::model
