// Tests of the kernel that takes a step's unknown tokens from the samples of the step before.
#include "kernels/carry_tokens.hpp"

#include <gtest/gtest.h>

#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::CarryTokensArgs;
using kernels::Sampled;

class CarryTokens : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(CarryTokens);

TEST_P(CarryTokens, unknown_tokens_come_from_the_rows_they_name_and_no_others_are_written) {
  for (const std::uint32_t capacity : {1u, 5u, 256u, 700u}) {
    SCOPED_TRACE(capacity);
    const std::uint32_t count = capacity - capacity / 5;
    std::vector<Sampled> rows(capacity);
    std::vector<std::int32_t> tokens, from, expected;
    for (std::uint32_t at = 0; at < capacity; ++at) {
      rows[at].token = static_cast<std::int32_t>(1000 + at);
      tokens.push_back(static_cast<std::int32_t>(at));
      from.push_back(at % 3 == 1 ? -1 : static_cast<std::int32_t>((at * 7 + 2) % capacity));
      const bool is_carried = at < count && from[at] >= 0;
      expected.push_back(is_carried ? 1000 + from[at] : tokens[at]);
    }
    const Buffer<Sampled> sampled = buffer(rows);
    const Buffer<std::int32_t> from_buffer = buffer(from);
    const Buffer<std::int32_t> token_buffer = buffer(tokens);
    const Buffer<std::uint32_t> count_buffer = buffer<std::uint32_t>({count});
    const CarryTokensArgs args{
        from_buffer.data(), {count_buffer.data(), capacity}, sampled.data(), token_buffer.data()};
    Graph graph(device());
    graph.kernel(kernels::carry_tokens(), kernels::grid_of(args, is_cuda()), args);
    run(graph);
    EXPECT_EQ(token_buffer.read(), expected);
  }
}

}  // namespace
}  // namespace attacca::test
