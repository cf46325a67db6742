// Tests of the embedding table.
#include "kernels/embed.hpp"

#include <gtest/gtest.h>

#include "kernels/weights.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test {
namespace {

using kernels::TensorType;

class Embed : public OnEachDevice {};
ATTACCA_ON_EACH_DEVICE(Embed);

TEST_P(Embed, rows_are_those_the_tokens_name_and_no_others_are_written) {
  constexpr std::uint32_t kVocabulary = 9;
  constexpr std::uint32_t kCapacity = 6;
  const std::vector<std::int32_t> tokens{8, 0, 3, 8, 5, 5};
  for (const TensorType type : kAllTypes) {
    SCOPED_TRACE(kernels::type_name(type));
    const std::uint32_t columns = kernels::is_quantized(type) ? 512 : 75;
    const auto bytes = random_weights(type, kVocabulary, columns, 3);
    const Buffer<unsigned char> table = buffer(bytes);
    const Buffer<std::int32_t> token_buffer = buffer(tokens);
    const Buffer<std::uint32_t> count = buffer<std::uint32_t>({4});
    const Buffer<float> y = buffer(std::vector<float>(kCapacity * columns, -7));
    const kernels::EmbedArgs args{token_buffer.data(),
                                  {count.data(), kCapacity},
                                  {table.data(), type, kVocabulary, columns},
                                  y.data()};
    Graph graph(device());
    graph.kernel(kernels::embed(), kernels::grid_of(args, is_cuda()), args);
    run(graph);
    const std::vector<float> rows = y.read();
    const kernels::Matrix matrix{bytes.data(), type, kVocabulary, columns};
    for (std::size_t row = 0; row < kCapacity; ++row)
      for (std::uint32_t column = 0; column < columns; ++column) {
        const float expected =
            row < 4 ? kernels::element(type, matrix.row(static_cast<std::uint64_t>(tokens[row])),
                                       column)
                    : -7;
        ASSERT_FLOAT_EQ(rows[row * columns + column], expected) << row << ", " << column;
      }
  }
}

}  // namespace
}  // namespace attacca::test
