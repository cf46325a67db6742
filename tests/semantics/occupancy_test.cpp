// Tests of occupancy.hpp: waves are counted right, on this machine's devices and on others.
#include <gmock/gmock.h>

#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// An H200, and a kernel with eight blocks of 256 threads on an SM.
constexpr Residency kLarge{132, 8, 2048, OccupancyLimit::threads};

Occupancy on_large(unsigned blocks) {
  return occupancy(kLarge, affine.info(), Grid{Dim3{blocks}, Dim3{256}});
}

TEST(SmallWaves, a_grid_that_fits_exactly_is_one_wave) {
  const Occupancy launch = on_large(1056);
  EXPECT_EQ(launch.resident_blocks, 1056u);
  EXPECT_EQ(launch.waves, 1);
  EXPECT_EQ(launch.last_wave_blocks, 1056u);
  EXPECT_EQ(launch.last_wave_share, 1);
  EXPECT_EQ(launch.share, 1);
  EXPECT_EQ(launch.busy_processors, 132u);
  EXPECT_EQ(launch.thread_share, 1);
  EXPECT_TRUE(launch.fills_whole_waves());
  EXPECT_THAT(launch.explain(), HasSubstr("Every wave is full"));
}

TEST(SmallWaves, one_block_more_is_a_wave_of_its_own) {
  const Occupancy launch = on_large(1057);
  EXPECT_EQ(launch.last_wave_blocks, 1u);
  EXPECT_DOUBLE_EQ(launch.last_wave_share, 1.0 / 1056);
  EXPECT_DOUBLE_EQ(launch.share, 1057.0 / 2112);
  EXPECT_EQ(launch.advised_blocks, 1056u);
  EXPECT_THAT(launch.explain(), AllOf(HasSubstr("'affine'"), HasSubstr("1.00 waves of 1056"),
                                      HasSubstr("The last wave has 1 block "),
                                      HasSubstr("With 1056 blocks one wave")));
}

TEST(SmallWaves, a_small_grid_leaves_processors_idle) {
  const Occupancy launch = on_large(33);
  EXPECT_EQ(launch.busy_processors, 33u);
  EXPECT_DOUBLE_EQ(launch.share, 33.0 / 1056);
  EXPECT_EQ(launch.last_wave_blocks, 33u);
  EXPECT_EQ(launch.advised_blocks, 1056u);
  EXPECT_THAT(launch.explain(), AllOf(HasSubstr("fills 3%"), HasSubstr("leaves 99 processors")));
}

TEST(SmallWaves, several_waves_are_cut_down_to_whole_ones) {
  const Occupancy launch = on_large(2640);
  EXPECT_DOUBLE_EQ(launch.waves, 2.5);
  EXPECT_EQ(launch.last_wave_blocks, 528u);
  EXPECT_DOUBLE_EQ(launch.share, 2640.0 / 3168);
  EXPECT_EQ(launch.advised_blocks, 2112u);
  EXPECT_TRUE(on_large(2112).fills_whole_waves());
}

TEST(SmallWaves, all_three_extents_of_a_grid_count) {
  EXPECT_EQ(occupancy(kLarge, affine.info(), Grid{Dim3{4, 3, 2}, Dim3{8, 4, 2}}).blocks, 24u);
  EXPECT_EQ(occupancy(Residency{1, 2, 2048, OccupancyLimit::registers}, affine.info(),
                      Grid{Dim3{1}, Dim3{8, 8, 4}})
                .thread_share,
            0.25);
}

TEST(SmallWaves, a_kernel_that_fits_nowhere_is_refused) {
  const auto ask = [] {
    return occupancy(Residency{132, 0, 2048, OccupancyLimit::shared_memory}, affine.info(),
                     Grid{Dim3{1}, Dim3{96}, 300'000});
  };
  EXPECT_THAT(ask, ThrowsMessage<BadArgument>(AllOf(HasSubstr("96 threads"), HasSubstr("300000"),
                                                    HasSubstr("use smaller blocks"))));
}

class SmallOccupancy : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(SmallOccupancy);

TEST_P(SmallOccupancy, a_device_says_what_fits) {
  const Occupancy launch = occupancy(device(), affine, Grid{Dim3{1}, Dim3{128}});
  EXPECT_GE(launch.residency.processors, 1u);
  EXPECT_GE(launch.residency.blocks_per_processor, 1u);
  EXPECT_EQ(launch.resident_blocks, static_cast<std::uint64_t>(launch.residency.processors) *
                                        launch.residency.blocks_per_processor);
  EXPECT_GT(launch.thread_share, 0);
  EXPECT_LE(launch.thread_share, 1);
  EXPECT_EQ(launch.residency.limit == OccupancyLimit::workers, !is_cuda());
  EXPECT_THAT(launch.explain(), HasSubstr("1 block of 'affine'"));
}

TEST_P(SmallOccupancy, a_worker_of_the_host_takes_one_block_at_a_time) {
  if (is_cuda()) GTEST_SKIP() << "about the host";
  const Occupancy launch = occupancy(device(), affine, Grid{Dim3{10}, Dim3{64}});
  const unsigned workers = GetParam() == DeviceKind::host_serial ? 1 : 4;
  EXPECT_EQ(launch.residency.processors, workers);
  EXPECT_EQ(launch.residency.blocks_per_processor, 1u);
  EXPECT_EQ(launch.waves, 10.0 / workers);
  EXPECT_EQ(launch.last_wave_blocks, workers == 1 ? 1u : 2u);
}

TEST_P(SmallOccupancy, smaller_blocks_or_shared_memory_change_what_limits) {
  if (!is_cuda()) GTEST_SKIP() << "a worker has neither";
  const Occupancy tiny = occupancy(device(), affine, Grid{Dim3{1}, Dim3{32}});
  EXPECT_EQ(tiny.residency.limit, OccupancyLimit::blocks);
  const Occupancy greedy = occupancy(device(), affine, Grid{Dim3{1}, Dim3{32}, 96 << 10});
  EXPECT_EQ(greedy.residency.limit, OccupancyLimit::shared_memory);
  EXPECT_LT(greedy.residency.blocks_per_processor, tiny.residency.blocks_per_processor);
  EXPECT_THAT(
      [&] {
        return occupancy(device(), affine, Grid{Dim3{1}, Dim3{32}, 1 << 20});
      },
      ThrowsMessage<BadArgument>(HasSubstr("1048576 bytes of shared memory")));
}

TEST_P(SmallOccupancy, a_grid_that_cannot_be_launched_is_refused) {
  EXPECT_THROW(occupancy(device(), affine, Grid{Dim3{0}, Dim3{32}}), BadArgument);
  EXPECT_THROW(occupancy(device(), affine, Grid{Dim3{1}, Dim3{2048}}), BadArgument);
}

}  // namespace
}  // namespace attacca::test
