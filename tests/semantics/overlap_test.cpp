// Tests of overlap.hpp: every element goes through its chunk once, for any chunk size; a chunk's
// exception reaches the caller, and the next job runs.
#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "graph/access.hpp"
#include "support/kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class SmallOverlap : public OnEachDevice {
 protected:
  using Chunk = OverlapChunk<int, int>;

  /// Pinned on CUDA.
  Buffer<int> counting(std::size_t count) const {
    std::vector<int> values(count);
    std::iota(values.begin(), values.end(), 0);
    return Buffer<int>(device(), values, Visibility::shared);
  }
  Buffer<int> filled(std::size_t count, int value) const {
    return Buffer<int>(device(), std::vector<int>(count, value), Visibility::shared);
  }
  static std::span<const int> in(const Buffer<int>& x) { return {x.data(), x.size()}; }
  static std::span<int> out(const Buffer<int>& x) { return {x.data(), x.size()}; }

  /// out = 3 * in + 1, in two steps.
  static void enqueue(StreamRef stream, const Chunk& chunk) {
    stream.copy(chunk.out, chunk.in, chunk.count * sizeof(int));
    stream.kernel(affine, Grid::covering(chunk.count, 32),
                  {.x = chunk.out, .count = chunk.count, .factor = 3, .summand = 1});
  }
};
ATTACCA_ON_EACH_DEVICE(SmallOverlap);

TEST_P(SmallOverlap, every_cut_gives_the_same_result) {
  constexpr std::size_t kCount = 1000;
  const Buffer<int> input = counting(kCount);
  for (const std::size_t chunk : {1000u, 64u, 333u, 999u, 5000u})
    for (const unsigned streams : {1u, 2u, 3u, 7u}) {
      const Buffer<int> output = filled(kCount, -1);
      overlap<int, int>(device(), in(input), out(output), {.chunk = chunk, .streams = streams},
                        enqueue);
      for (std::size_t at = 0; at < kCount; ++at)
        ASSERT_EQ(output.data()[at], 3 * static_cast<int>(at) + 1)
            << at << " in chunks of " << chunk << " over " << streams << " streams";
    }
}

TEST_P(SmallOverlap, chunks_come_in_order_and_the_last_may_be_short) {
  const Buffer<int> input = counting(10);
  const Buffer<int> output = filled(10, 0);
  std::vector<std::pair<std::size_t, std::size_t>> seen;
  std::set<void*> streams;
  overlap<int, int>(device(), in(input), out(output), {.chunk = 4, .streams = 2},
                    [&](StreamRef stream, const Chunk& chunk) {
                      seen.emplace_back(chunk.first, chunk.count);
                      streams.insert(&graph::state_of(stream));
                      enqueue(stream, chunk);
                    });
  EXPECT_THAT(seen, testing::ElementsAre(std::pair{0, 4}, std::pair{4, 4}, std::pair{8, 2}));
  EXPECT_EQ(streams.size(), 2u);
}

TEST_P(SmallOverlap, one_overlap_runs_many_jobs_and_pageable_memory_too) {
  Overlap<int, int> jobs(device(), {.chunk = 50, .streams = 4});
  for (int round = 0; round < 5; ++round) {
    const std::vector<int> input(501, round);
    std::vector<int> output(501, -1);
    jobs.run(input, output, enqueue);
    EXPECT_EQ(output, std::vector<int>(501, 3 * round + 1));
  }
}

TEST_P(SmallOverlap, elements_in_and_out_may_differ_in_size) {
  const std::vector<std::uint64_t> input{0x1111111122222222, 0x3333333344444444};
  std::vector<std::uint32_t> output(2);
  overlap<std::uint64_t, std::uint32_t>(
      device(), input, output, {.chunk = 1, .streams = 2},
      [](StreamRef stream, const OverlapChunk<std::uint64_t, std::uint32_t>& chunk) {
        stream.copy(chunk.out, chunk.in, chunk.count * sizeof(std::uint32_t));
      });
  EXPECT_EQ(output, (std::vector<std::uint32_t>{0x22222222, 0x44444444}));
}

TEST_P(SmallOverlap, an_empty_job_has_no_chunks) {
  overlap<int, int>(device(), {}, {}, {.chunk = 4},
                    [](StreamRef, const Chunk&) { FAIL() << "there is no chunk"; });
}

TEST_P(SmallOverlap, the_next_chunk_is_copied_in_while_one_computes) {
  const Buffer<int> input = counting(2);
  const Buffer<int> output = filled(2, 0);
  // A kernel's first launch loads it. On CUDA that would wait for running host calls.
  overlap<int, int>(device(), in(input), out(output), {.chunk = 1, .streams = 2}, enqueue);
  std::atomic<bool> is_second_there = false;
  bool was_seen = false;
  overlap<int, int>(device(), in(input), out(output), {.chunk = 1, .streams = 2},
                    [&](StreamRef stream, const Chunk& chunk) {
                      if (chunk.first == 0)
                        stream.host("wait for the second", [&] {
                          for (int polls = 0; polls < 10'000 && !is_second_there; ++polls)
                            std::this_thread::sleep_for(std::chrono::milliseconds(1));
                          was_seen = is_second_there;
                        });
                      else if (is_cuda())
                        is_second_there = true;  // two streams' host calls may share a thread
                      else
                        stream.host("arrive", [&] { is_second_there = true; });
                      enqueue(stream, chunk);
                    });
  EXPECT_TRUE(was_seen);
}

TEST_P(SmallOverlap, what_the_callback_throws_comes_out_and_the_next_job_runs) {
  Overlap<int, int> jobs(device(), {.chunk = 3, .streams = 2});
  const Buffer<int> input = counting(20);
  const Buffer<int> output = filled(20, -1);
  const auto fail_in_the_middle = [](StreamRef stream, const Chunk& chunk) {
    if (chunk.first == 9) throw std::runtime_error("no ninth element");
    enqueue(stream, chunk);
  };
  EXPECT_THAT([&] { jobs.run(in(input), out(output), fail_in_the_middle); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no ninth")));
  jobs.run(in(input), out(output), enqueue);
  for (int at = 0; at < 20; ++at) EXPECT_EQ(output.data()[at], 3 * at + 1);
}

TEST_P(SmallOverlap, what_a_chunk_throws_in_its_stream_comes_out_and_the_next_job_runs) {
  Overlap<int, int> jobs(device(), {.chunk = 3, .streams = 2});
  const Buffer<int> input = counting(20);
  const Buffer<int> output = filled(20, -1);
  const auto fail_later = [](StreamRef stream, const Chunk& chunk) {
    enqueue(stream, chunk);
    if (chunk.first == 6)
      stream.host("check", [] { throw std::runtime_error("not a good chunk"); });
  };
  EXPECT_THAT([&] { jobs.run(in(input), out(output), fail_later); },
              ThrowsMessage<NodeFailed>(HasSubstr("not a good chunk")));
  jobs.run(in(input), out(output), enqueue);
  for (int at = 0; at < 20; ++at) EXPECT_EQ(output.data()[at], 3 * at + 1);
}

TEST_P(SmallOverlap, plans_without_chunks_or_streams_are_refused_with_the_value) {
  const auto refused = [&](const OverlapPlan& plan, const char* value, const char* remedy) {
    EXPECT_THAT(([&] { Overlap<int, int>(device(), plan); }),
                ThrowsMessage<BadArgument>(AllOf(HasSubstr(value), HasSubstr(remedy))));
  };
  refused({.chunk = 0}, "chunks of 0", "use 1 to");
  refused({.chunk = ~std::size_t{0}}, "18446744073709551615", "use 1 to");
  refused({.chunk = 1, .streams = 0}, "0 streams", "use 1 to 64");
  refused({.chunk = 1, .streams = 65}, "65 streams", "use 1 to 64");
  EXPECT_NO_THROW((Overlap<int, int>(device(), {.chunk = 1, .streams = 64})));
}

TEST_P(SmallOverlap, an_output_of_another_length_is_refused) {
  std::vector<int> input(4);
  std::vector<int> output(5);
  EXPECT_THAT(
      ([&] { overlap<int, int>(device(), input, output, {.chunk = 2}, enqueue); }),
      ThrowsMessage<BadArgument>(AllOf(HasSubstr("4 elements into 5"), HasSubstr("as many"))));
}

TEST_P(SmallOverlap, a_job_without_a_function_is_refused) {
  std::vector<int> values(4);
  EXPECT_THAT(([&] { overlap<int, int>(device(), values, values, {.chunk = 2}, nullptr); }),
              ThrowsMessage<BadArgument>(HasSubstr("has no function")));
}

}  // namespace
}  // namespace attacca::test
