// Tests of attention over pages against doubles, and that a token's result has the same bits
// whatever else is in the step.
#include "kernels/attention/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "kernels/host/row_block.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::attention_test {
namespace {

using kernels::RowBlock;
using kernels::RowFormat;

struct Shape {
  std::uint32_t head_size;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  std::uint32_t window = 0;

  std::uint32_t columns() const { return heads * head_size; }
};

struct Token {
  std::int32_t slot;
  std::int32_t position;
};

/// Three slots: one in the middle of its prompt, one far on, one at its start. Their rows
/// alternate.
const std::vector<Token> kMixed = [] {
  std::vector<Token> tokens{{1, 70}};
  for (std::int32_t position = 11; position < 36; ++position) tokens.push_back({0, position});
  tokens.push_back({2, 0});
  tokens.push_back({2, 1});
  return tokens;
}();
constexpr std::uint32_t kSlots = 3;
constexpr std::uint32_t kLength = 128;  // positions of a slot

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::minstd_rand random(seed);  // quick, and good enough
  std::vector<float> values(count);
  for (float& value : values)
    value = static_cast<float>(random()) / static_cast<float>(random.max()) * 4 - 2;
  return values;
}

/// Keys, values and queries of all positions of all slots, before any paging.
struct World {
  explicit World(const Shape& s)
      : shape(s),
        keys(random_floats(std::size_t{kSlots} * kLength * s.kv_heads * s.head_size, 1)),
        values(random_floats(keys.size(), 2)),
        queries(random_floats(std::size_t{kSlots} * kLength * s.columns(), 3)) {}

  std::size_t cell(const Token& token, std::uint32_t kv_head) const {
    return ((static_cast<std::size_t>(token.slot) * kLength +
             static_cast<std::size_t>(token.position)) *
                shape.kv_heads +
            kv_head) *
           shape.head_size;
  }
  const float* query(const Token& token) const {
    return &queries[(static_cast<std::size_t>(token.slot) * kLength +
                     static_cast<std::size_t>(token.position)) *
                    shape.columns()];
  }

  std::vector<double> attended(const Token& token, float scale) const {
    std::vector<double> y;
    for (std::uint32_t head = 0; head < shape.heads; ++head) {
      const std::uint32_t kv_head = head / (shape.heads / shape.kv_heads);
      const float* q = query(token) + head * shape.head_size;
      const std::int32_t first =
          shape.window == 0
              ? 0
              : std::max(0, token.position - static_cast<std::int32_t>(shape.window) + 1);
      std::vector<double> weights;
      for (std::int32_t at = first; at <= token.position; ++at) {
        const float* key = &keys[cell({token.slot, at}, kv_head)];
        weights.push_back(scale * std::inner_product(q, q + shape.head_size, key, 0.0));
      }
      const double max = *std::max_element(weights.begin(), weights.end());
      double total = 0;
      for (double& weight : weights) total += weight = std::exp(weight - max);
      std::vector<double> sum(shape.head_size);
      for (std::int32_t at = first; at <= token.position; ++at) {
        const float* value = &values[cell({token.slot, at}, kv_head)];
        for (std::uint32_t i = 0; i < shape.head_size; ++i)
          sum[i] += weights[static_cast<std::size_t>(at - first)] / total * value[i];
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return y;
  }

  Shape shape;
  std::vector<float> keys;
  std::vector<float> values;
  std::vector<float> queries;
};

class Attention : public OnEachDevice {
 protected:
  /// The rows of a step with these tokens, in `blocks` blocks or as many as the kernel likes. Pages
  /// are shuffled, and cells that no token may see are NaN.
  std::vector<float> attend(const World& world, const std::vector<Token>& tokens,
                            std::uint32_t page_size = 16, unsigned blocks = 0) {
    return run_step<float>(world, tokens, page_size, blocks, RowFormat::f32,
                           tokens.size() * world.shape.columns());
  }

  template <class T>
  std::vector<T> run_step(const World& world, const std::vector<Token>& tokens,
                          std::uint32_t page_size, unsigned blocks, RowFormat format,
                          std::size_t elements) {
    const Shape& shape = world.shape;
    const std::uint32_t stride = kLength / page_size;
    std::vector<std::int32_t> table(std::size_t{kSlots} * stride);
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(page_size));
    std::vector<std::int32_t> lengths(kSlots, 0);
    for (const Token& token : tokens)
      lengths[static_cast<std::size_t>(token.slot)] =
          std::max(lengths[static_cast<std::size_t>(token.slot)], token.position + 1);
    std::vector<float> keys(world.keys.size(), std::numeric_limits<float>::quiet_NaN());
    std::vector<float> values = keys;
    kernels::PagedKv kv{keys.data(), values.data(),  table.data(),   stride,
                        page_size,   shape.kv_heads, shape.head_size};
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      for (std::uint32_t at = 0; at < static_cast<std::uint32_t>(lengths[slot]); ++at)
        for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
          const std::size_t from =
              world.cell({static_cast<std::int32_t>(slot), static_cast<std::int32_t>(at)}, head);
          const std::size_t to = kv.offset(slot, at, head);
          std::copy_n(&world.keys[from], shape.head_size, &keys[to]);
          std::copy_n(&world.values[from], shape.head_size, &values[to]);
        }
    // Queries are the start of longer rows.
    const std::uint32_t q_stride = shape.columns() + 2 * shape.kv_heads * shape.head_size;
    std::vector<float> q(tokens.size() * q_stride);
    std::vector<std::int32_t> positions;
    std::vector<std::int32_t> slots;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      std::copy_n(world.query(tokens[row]), shape.columns(), &q[row * q_stride]);
      positions.push_back(tokens[row].position);
      slots.push_back(tokens[row].slot);
    }
    const auto count = static_cast<std::uint32_t>(tokens.size());
    const std::uint32_t capacity = count + 3;
    positions.resize(capacity);
    slots.resize(capacity);

    const Buffer<float> key_buffer = buffer(keys);
    const Buffer<float> value_buffer = buffer(values);
    const Buffer<std::int32_t> tables = buffer(table);
    const Buffer<float> q_buffer = buffer(q);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<T> y = buffer(std::vector<T>(elements));
    kv.keys = key_buffer.data();
    kv.values = value_buffer.data();
    kv.tables = tables.data();
    const kernels::AttentionArgs args{.q = q_buffer.data(),
                                      .q_stride = q_stride,
                                      .heads = shape.heads,
                                      .rows = {counts.data(), capacity},
                                      .positions = position_buffer.data(),
                                      .slots = slot_buffer.data(),
                                      .scale = scale(shape),
                                      .window = shape.window,
                                      .kv = kv,
                                      .y = {y.data(), format, shape.columns()}};
    Grid grid = kernels::grid_of(args, is_cuda());
    if (blocks != 0 && !is_cuda()) grid.blocks.x = blocks;
    stream().kernel(kernels::attention(), grid, args);
    stream().synchronize();
    return y.read();
  }

  static float scale(const Shape& shape) {
    return 1 / std::sqrt(static_cast<float>(shape.head_size));
  }

  static void expect_attended(const World& world, const std::vector<Token>& tokens,
                              const std::vector<float>& y) {
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const auto expected = world.attended(tokens[row], scale(world.shape));
      for (std::size_t at = 0; at < expected.size(); ++at)
        ASSERT_NEAR(y[row * expected.size() + at], expected[at], 3e-6)
            << "head size " << world.shape.head_size << ", window " << world.shape.window
            << ", row " << row << ", column " << at;
    }
  }
};
ATTACCA_ON_EACH_DEVICE(Attention);

TEST_P(Attention, every_head_size_agrees_with_doubles) {
  const std::vector<Token> tokens{{0, 40}, {1, 3}, {1, 4}, {1, 5}};
  for (const std::uint32_t head_size : {8u, 16u, 48u, 64u, 80u, 96u, 128u, 256u}) {
    const World world({head_size, 2, 1});
    expect_attended(world, tokens, attend(world, tokens));
  }
}

TEST_P(Attention, mixed_steps_agree_with_doubles_for_any_number_of_heads_in_a_group) {
  for (const Shape& shape :
       {Shape{16, 2, 2}, Shape{16, 4, 2}, Shape{16, 9, 3}, Shape{16, 8, 1}, Shape{8, 40, 1}}) {
    const World world(shape);
    expect_attended(world, kMixed, attend(world, kMixed));
  }
}

TEST_P(Attention, a_window_hides_what_lies_further_back) {
  for (const std::uint32_t window : {1u, 5u, 16u, 17u, 33u}) {
    const World world({16, 3, 1, window});
    expect_attended(world, kMixed, attend(world, kMixed));
  }
}

TEST_P(Attention, a_token_is_the_same_bits_in_any_batch_block_and_page_size) {
  for (const std::uint32_t window : {0u, 20u}) {
    const World world({48, 6, 2, window});
    const std::size_t columns = world.shape.columns();
    const auto expected = attend(world, kMixed);
    for (const std::uint32_t page_size : {32u, 64u})
      EXPECT_EQ(attend(world, kMixed, page_size), expected) << "page size " << page_size;
    for (const unsigned blocks : {1u, 3u, 7u})
      EXPECT_EQ(attend(world, kMixed, 16, blocks), expected) << blocks << " blocks";
    for (std::size_t row = 0; row < kMixed.size(); row += 3) {
      const auto alone = attend(world, {kMixed[row]});
      EXPECT_EQ(std::memcmp(alone.data(), &expected[row * columns], columns * sizeof(float)), 0)
          << "row " << row << " alone";
    }
    std::vector<Token> reversed(kMixed.rbegin(), kMixed.rend());
    const auto backwards = attend(world, reversed);
    for (std::size_t row = 0; row < kMixed.size(); ++row)
      EXPECT_EQ(std::memcmp(&backwards[(kMixed.size() - 1 - row) * columns],
                            &expected[row * columns], columns * sizeof(float)),
                0)
          << "row " << row << " in a reversed batch";
  }
}

TEST_P(Attention, rows_in_the_format_i16_are_the_blocks_of_the_f32_rows) {
  if (is_cuda()) GTEST_SKIP() << "i16 is for the host";
  for (const Shape& shape : {Shape{64, 6, 2}, Shape{48, 6, 2}, Shape{80, 2, 2}, Shape{8, 8, 4},
                             Shape{8, 12, 4}, Shape{16, 36, 4}}) {
    const World world(shape);
    const auto y = attend(world, kMixed);
    const auto blocks =
        run_step<RowBlock>(world, kMixed, 16, 0, RowFormat::i16, y.size() / RowBlock::kElements);
    for (std::size_t block = 0; block < blocks.size(); ++block) {
      RowBlock expected;
      kernels::to_row_block(&y[block * RowBlock::kElements], expected);
      ASSERT_EQ(std::memcmp(&expected, &blocks[block], sizeof expected), 0) << "block " << block;
    }
  }
}

TEST(AttentionGrid, one_token_has_a_block_for_each_kv_head_and_i16_is_refused_on_cuda) {
  const std::uint32_t count = 1;
  kernels::AttentionArgs args{};
  args.heads = 9;
  args.rows = {&count, 1};
  args.kv.kv_heads = 3;
  args.kv.head_size = 64;
  args.kv.page_size = 16;
  args.kv.table_stride = 64;
  args.y = {nullptr, RowFormat::i16, 576};
  EXPECT_EQ(kernels::grid_of(args, false).blocks.x, 3u);
  EXPECT_THROW(kernels::grid_of(args, true), BadArgument);
  EXPECT_EQ(kernels::attention().cost(args).flops, 4.0 * 576 * 512);
  args.window = 100;
  EXPECT_EQ(kernels::attention().cost(args).flops, 4.0 * 576 * 100);
}

}  // namespace
}  // namespace attacca::test::attention_test
