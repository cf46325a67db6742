// Tests of waits that time out at the rings of src/kernels/linear and at BulkCopy: the wait ends,
// so do all other waits of the block, the host learns which thread waited for what, and the device
// works on.
#include <gmock/gmock.h>

#include "support/on_each_device.hpp"
#include "support/ring_kernels.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SmallRing : public OnEachDevice {
 protected:
  void SetUp() override {
    OnEachDevice::SetUp();
    if (IsSkipped()) return;
    if (!is_cuda()) GTEST_SKIP() << "rings are of the GPU";
    if (device().compute_capability() < 90) GTEST_SKIP() << "no TMA on this GPU";
  }

  struct Outcome {
    std::vector<std::uint32_t> given_up;
    std::uint32_t sum;
  };
  /// Runs the kernel in a graph called "rings". `check` gets a function that waits for it.
  template <class Check>
  Outcome use(RingLack lack, std::uint32_t stages, Check check) {
    const Buffer<std::uint32_t> source = buffer<std::uint32_t>({5, 0, 0, 0});
    const Buffer<std::uint32_t> given_up = buffer<std::uint32_t>({0, 0});
    const Buffer<std::uint32_t> sum = buffer<std::uint32_t>({0});
    Graph graph(device(), "rings");
    graph.kernel(use_ring, Grid{{1}, {kRingThreads}},
                 {lack, stages, source.data(), given_up.data(), sum.data()});
    Exec exec = graph.instantiate();
    exec.launch(stream());
    check([&] { stream().synchronize(); });
    EXPECT_NO_THROW(stream().synchronize()) << "a failure is reported once";
    return {given_up.read(), sum.read()[0]};
  }
};
ATTACCA_ON_EACH_DEVICE(SmallRing);

TEST_P(SmallRing, what_is_filled_is_read_and_nobody_gives_up) {
  const Outcome outcome =
      use(RingLack::nothing, 100, [](auto synchronize) { EXPECT_NO_THROW(synchronize()); });
  EXPECT_THAT(outcome.given_up, ElementsAre(0, 0));
  EXPECT_EQ(outcome.sum, 500u);
}

TEST_P(SmallRing, a_stage_that_is_never_filled_is_named_and_no_later_wait_takes_long) {
  const Outcome outcome = use(RingLack::filler, 1000, [](auto synchronize) {
    EXPECT_THAT(synchronize, ThrowsMessage<WaitOverdue>(AllOf(
                                 HasSubstr("'use_ring' of graph 'rings'"), HasSubstr("block 0"),
                                 HasSubstr("waited 0.05 s for a stage to be filled by TMA"),
                                 HasSubstr("wanted 0 and saw"))));
  });
  EXPECT_THAT(outcome.given_up, ElementsAre(1000, 0));
}

TEST_P(SmallRing, a_stage_that_is_never_released_is_named) {
  const Outcome outcome = use(RingLack::release, 10, [](auto synchronize) {
    EXPECT_THAT(synchronize, ThrowsMessage<WaitOverdue>(
                                 AllOf(HasSubstr("for a stage to be released by its consumers"),
                                       HasSubstr("wanted 0 and saw"))));
  });
  EXPECT_THAT(outcome.given_up, ElementsAre(0, 8));
  EXPECT_EQ(outcome.sum, 10u);
}

TEST_P(SmallRing, a_block_that_gives_up_takes_its_peer_along) {
  const Buffer<std::uint32_t> given_up = buffer<std::uint32_t>({0, 0});
  stream().kernel(starve_pair, Grid{{2}, {32}}, {given_up.data()});
  // If the first block did not tell its peer, the peer would wait on and report instead.
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(AllOf(HasSubstr("block 0"), HasSubstr("waited 0.05 s"),
                                               HasSubstr("for a stage to be filled by TMA"))));
  EXPECT_THAT(given_up.read(), ElementsAre(3, 3));
}

TEST_P(SmallRing, a_chunk_that_was_not_fetched_is_named) {
  const Buffer<std::uint32_t> given_up = buffer<std::uint32_t>({0, 0});
  stream().kernel(starve_bulk_copy, Grid{{2}, {64}}, {given_up.data()});
  EXPECT_THAT([&] { stream().synchronize(); },
              ThrowsMessage<WaitOverdue>(HasSubstr("for a chunk to be copied by TMA")));
  EXPECT_THAT(given_up.read(), ElementsAre(1, 1)) << "both blocks came to their end";
}

}  // namespace
}  // namespace attacca::test
