// Tests of StagedCopy, BulkCopy and for_each_chunk: every element arrives once, in its place, for
// any element size, number of chunks, alignment and block.
#include <algorithm>
#include <cstring>
#include <random>

#include "support/copy_kernels.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t kPoison = 0xA5;
constexpr unsigned kPasses = 3;

class SmallDeviceStagedCopy : public OnEachDevice {
 protected:
  struct Shape {
    std::uint64_t count;
    std::uint64_t per_block;
    unsigned blocks;
    unsigned threads;
    unsigned offset;  // elements from the start of an allocation to the input
  };

  void expect_streamed(const StreamCase& of, const Shape& shape) {
    SCOPED_TRACE(testing::Message()
                 << of.name << ": " << shape.count << " elements from " << shape.offset << " on, "
                 << shape.blocks << " blocks of " << shape.threads << " threads");
    const std::size_t size = of.element_bytes;
    Bytes values((shape.offset + shape.count + kPasses) * size);
    std::mt19937 random(7);
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
    const Buffer<std::uint8_t> in = buffer(values);
    const Buffer<std::uint8_t> out =
        buffer(Bytes(std::max<std::size_t>(1, kPasses * shape.count * size), kPoison));
    stream().kernel(of.kernel, Grid{{shape.blocks}, {shape.threads}},
                    {.in = in.data() + shape.offset * size,
                     .out = out.data(),
                     .count = shape.count,
                     .per_block = shape.per_block,
                     .passes = kPasses});
    stream().synchronize();

    Bytes expected(out.size(), kPoison);
    for (unsigned pass = 0; pass < kPasses; ++pass) {
      const std::uint8_t* from = values.data() + (shape.offset + pass) * size;
      std::uint8_t* to = expected.data() + pass * shape.count * size;
      const std::uint64_t covered =
          std::min<std::uint64_t>(shape.count, shape.blocks * shape.per_block);
      for (std::uint64_t at = 0; at < covered;) {
        const std::uint64_t block_end =
            std::min(covered, (at / shape.per_block + 1) * shape.per_block);
        const std::uint64_t end = std::min<std::uint64_t>(block_end, at + of.chunk);
        for (std::uint64_t i = at; i < end; ++i)
          std::memcpy(to + i * size, from + (end - 1 - (i - at)) * size, size);
        at = end;
      }
    }
    EXPECT_EQ(out.read(), expected);
  }
};
ATTACCA_ON_EACH_DEVICE(SmallDeviceStagedCopy);

TEST_P(SmallDeviceStagedCopy, nothing_to_copy_writes_nothing) {
  for (const StreamCase& of : stream_cases())
    expect_streamed(of, {.count = 0, .per_block = 8, .blocks = 1, .threads = 32, .offset = 0});
}

TEST_P(SmallDeviceStagedCopy, one_element_arrives) {
  for (const StreamCase& of : stream_cases())
    expect_streamed(of, {.count = 1, .per_block = 8, .blocks = 1, .threads = 32, .offset = 1});
}

TEST_P(SmallDeviceStagedCopy, whole_chunks_arrive_in_order) {
  for (const StreamCase& of : stream_cases()) {
    const std::uint64_t count = 11 * of.chunk;
    expect_streamed(of,
                    {.count = count, .per_block = count, .blocks = 1, .threads = 64, .offset = 0});
  }
}

TEST_P(SmallDeviceStagedCopy, a_last_chunk_that_is_not_full_arrives) {
  for (const StreamCase& of : stream_cases())
    for (const std::uint64_t count : {of.chunk - 1, of.chunk + 1, 9 * of.chunk + 5})
      expect_streamed(
          of, {.count = count, .per_block = count, .blocks = 1, .threads = 64, .offset = 0});
}

TEST_P(SmallDeviceStagedCopy, a_source_may_start_at_any_element) {
  for (const StreamCase& of : stream_cases()) {
    const std::uint64_t count = 5 * of.chunk + 3;
    for (const unsigned offset : {1u, 7u, 15u})
      expect_streamed(
          of, {.count = count, .per_block = count, .blocks = 1, .threads = 64, .offset = offset});
  }
}

TEST_P(SmallDeviceStagedCopy, blocks_of_any_size_share_the_work) {
  for (const StreamCase& of : stream_cases())
    for (const unsigned threads : {1u, 33u, 256u})
      expect_streamed(of, {.count = 7 * of.chunk + 2,
                           .per_block = 2 * of.chunk + 1,
                           .blocks = 5,  // the last has nothing to do
                           .threads = threads,
                           .offset = 1});
}

}  // namespace
}  // namespace attacca::test
