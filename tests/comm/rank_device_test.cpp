// Tests of which GPU the command gives a rank.
#include <gtest/gtest.h>

#include "tools/attacca/llm/rank_device.hpp"

namespace attacca::tool {
namespace {

TEST(RankDevice, ranks_take_the_gpus_in_turn_if_none_is_named_by_number) {
  for (const char* name : {"cuda", "best"}) {
    EXPECT_EQ(device_of_rank(name, 0, 4), "cuda:0");
    EXPECT_EQ(device_of_rank(name, 3, 4), "cuda:3");
    EXPECT_EQ(device_of_rank(name, 5, 4), "cuda:1");
    EXPECT_EQ(device_of_rank(name, 3, 1), "cuda:0");
    EXPECT_EQ(device_of_rank(name, 1, 0), name);
  }
}

TEST(RankDevice, a_device_that_is_named_stays) {
  for (const char* name : {"cuda:0", "cuda:2", "host", "host-serial"})
    EXPECT_EQ(device_of_rank(name, 1, 4), name);
}

TEST(RankDevice, threads_use_nccl_where_each_can_have_a_gpu_and_else_share_one) {
  const auto automatic = Transport::automatic;
  EXPECT_EQ(transport_of_threads(automatic, 2, 2, true), Transport::nccl);
  EXPECT_EQ(transport_of_threads(automatic, 2, 8, true), Transport::nccl);
  EXPECT_EQ(transport_of_threads(automatic, 2, 2, false), Transport::edges);
  EXPECT_EQ(transport_of_threads(automatic, 4, 2, true), Transport::edges);
  EXPECT_EQ(transport_of_threads(automatic, 2, 1, true), automatic) << "which is edges on one GPU";
  for (const Transport named : {Transport::edges, Transport::nccl, Transport::peer})
    EXPECT_EQ(transport_of_threads(named, 4, 2, true), named);
}

}  // namespace
}  // namespace attacca::tool
