// Litmus tests: the correct forms never show an outcome that the memory model forbids, and the
// harness is able to see one. `attacca bench litmus` prints the outcomes of the other forms.
#include "support/litmus_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using bench::litmus::Form;
using bench::litmus::Pattern;
using bench::litmus::Place;

class LitmusDevice : public OnEachDevice {
 protected:
  /// Counts by outcome: a hundred million tries on a GPU, some thousands on the host.
  std::vector<std::uint64_t> outcomes(Pattern pattern, Form form, Place place = Place::two_blocks) {
    const std::uint32_t launches = is_cuda() ? 8 : 1;
    const std::uint32_t instances = is_cuda() ? bench::litmus::kInstances : 2;
    const std::uint32_t rounds = is_cuda() ? 400 : 4000;
    const Grid grid =
        is_cuda() ? Grid{{bench::litmus::kBlocks, 1, 1}, {bench::litmus::kThreads, 1, 1}} : Grid{};
    const Buffer<std::byte> lines(device(), bench::litmus::line_bytes(instances));
    const auto histogram = buffer(std::vector<bench::litmus::Counter>(4));
    for (std::uint32_t launch = 0; launch < launches; ++launch) {
      stream().fill(lines.data(), 0, lines.bytes());
      stream().kernel(
          litmus_kernel(pattern, form), grid,
          {lines.data(), histogram.data(), instances, rounds, 20260801u * (launch + 1), place});
    }
    stream().synchronize();
    std::vector<std::uint64_t> counts;
    std::uint64_t tries = 0;
    for (const auto& counter : histogram.read()) {
      counts.push_back(counter.load(attacca::device::relaxed));
      tries += counts.back();
    }
    EXPECT_EQ(tries, std::uint64_t{launches} * instances * rounds) << "a pair did not meet";
    if (is_cuda()) {
      EXPECT_GE(tries, 100'000'000u);
    }
    return counts;
  }

  void expect_never(Pattern pattern, Form form, Place place = Place::two_blocks) {
    ASSERT_TRUE(bench::litmus::is_forbidden(pattern, form, place));
    EXPECT_EQ(outcomes(pattern, form, place)[bench::litmus::weak_outcome(pattern)], 0u);
  }
};
ATTACCA_ON_EACH_DEVICE(LitmusDevice);

TEST_P(LitmusDevice, release_and_acquire_pass_a_message) {
  expect_never(Pattern::message_passing, Form::release_acquire);
}
TEST_P(LitmusDevice, release_and_acquire_forbid_load_buffering) {
  expect_never(Pattern::load_buffering, Form::release_acquire);
}
TEST_P(LitmusDevice, fences_beside_relaxed_accesses_pass_a_message) {
#if defined(__SANITIZE_THREAD__)
  if (!is_cuda()) GTEST_SKIP() << "there are no fences under ThreadSanitizer";
#endif
  expect_never(Pattern::message_passing, Form::fences);
}
TEST_P(LitmusDevice, fences_beside_relaxed_accesses_forbid_load_buffering) {
#if defined(__SANITIZE_THREAD__)
  if (!is_cuda()) GTEST_SKIP() << "there are no fences under ThreadSanitizer";
#endif
  expect_never(Pattern::load_buffering, Form::fences);
}
TEST_P(LitmusDevice, sequential_consistency_forbids_all_three) {
  expect_never(Pattern::message_passing, Form::seq_cst);
  expect_never(Pattern::store_buffering, Form::seq_cst);
  expect_never(Pattern::load_buffering, Form::seq_cst);
}
TEST_P(LitmusDevice, block_scope_is_enough_within_a_block) {
  expect_never(Pattern::message_passing, Form::block_scope, Place::one_block);
  expect_never(Pattern::load_buffering, Form::block_scope, Place::one_block);
}

TEST_P(LitmusDevice, the_harness_sees_weak_behaviour_where_it_is_allowed) {
  if (!is_cuda()) GTEST_SKIP() << "two threads of a busy host may never overlap";
  EXPECT_GT(outcomes(Pattern::store_buffering, Form::relaxed)[0], 0u);
}

}  // namespace
}  // namespace attacca::test
