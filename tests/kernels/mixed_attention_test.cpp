// Tests of attention for mixed steps against doubles: prompts, decode and both in one step, and
// that a row's result does not depend on what else is in the step.
#include "kernels/attention/mixed_attention.hpp"

#include <gtest/gtest.h>

#include "kernels/attention/decode_attention.hpp"
#include "kernels/paged_cells.hpp"
#include "kernels/quantization.hpp"
#include "support/on_each_device.hpp"

namespace attacca::test::mixed_attention_test {
namespace {

using kernels::MixedAttentionArgs;

constexpr std::uint16_t kUntouched = 0xffff;

struct Shape {
  std::uint32_t head_size;
  std::uint32_t heads;
  std::uint32_t kv_heads;
  KvType type = KvType::f32;
  std::uint32_t window = 0;
  std::uint32_t page_size = 16;
  bool same_bits = false;

  std::uint32_t columns() const { return heads * head_size; }
  std::uint32_t first(std::uint32_t last) const {
    return window != 0 && last >= window ? last - window + 1 : 0;
  }
};

/// Positions [first, last] of one slot are rows of the step.
struct Stretch {
  std::uint32_t slot;
  std::uint32_t first;
  std::uint32_t last;
};

struct Token {
  std::uint32_t slot;
  std::uint32_t position;
};
std::vector<Token> tokens_of(const std::vector<Stretch>& runs) {
  std::vector<Token> tokens;
  for (const Stretch& run : runs)
    for (std::uint32_t at = run.first; at <= run.last; ++at) tokens.push_back({run.slot, at});
  return tokens;
}

/// Slots that are filled up to these lengths. Keys, values and queries depend only on slot and
/// position.
class World {
 public:
  World(const Shape& shape, const std::vector<std::uint32_t>& lengths)
      : shape_(shape), lengths_(lengths), tables_(lengths, shape.page_size) {}

  /// Positions before `from[slot]` are NaN.
  Cells cells(unsigned seed, const std::vector<std::uint32_t>& from,
              const std::vector<std::uint32_t>& to) const {
    Cells cells(std::size_t{tables_.count} * shape_.kv_heads * shape_.page_size * shape_.head_size,
                shape_.type);
    for (std::uint32_t slot = 0; slot < lengths_.size(); ++slot)
      for (std::uint32_t at = from[slot]; at < to[slot]; ++at) {
        std::minstd_rand random(seed + 1000 * slot + 7 * at);
        random.discard(3);
        for (std::uint32_t head = 0; head < shape_.kv_heads; ++head)
          for (std::uint32_t i = 0; i < shape_.head_size; ++i)
            cells[offset(slot, at, head) + i] = random_eighth(random);
      }
    return cells;
  }
  std::size_t offset(std::uint32_t slot, std::uint32_t position, std::uint32_t kv_head) const {
    kernels::PagedKv kv;
    kv.tables = tables_.pages.data();
    kv.table_stride = tables_.stride;
    kv.page_size = shape_.page_size;
    kv.kv_heads = shape_.kv_heads;
    kv.head_size = shape_.head_size;
    return kv.offset(slot, position, kv_head);
  }
  std::vector<float> query(const Token& token) const {
    return random_eighths(shape_.columns(), 77 + 1000 * token.slot + 13 * token.position);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape_.head_size)); }

  Shape shape_;
  std::vector<std::uint32_t> lengths_;
  Tables tables_;
};

class MixedAttention : public OnEachDevice {
 protected:
  std::vector<KvType> types() const {
    if (!is_cuda()) return {KvType::f32};
    return {KvType::f32, KvType::bf16, KvType::f16, KvType::fp8};
  }
  /// Each type, with neighbouring rows computed together and computed alone.
  std::vector<std::pair<KvType, bool>> ways() const {
    std::vector<std::pair<KvType, bool>> ways;
    for (const KvType type : types()) {
      if (type != KvType::f32) ways.emplace_back(type, false);
      ways.emplace_back(type, true);
    }
    return ways;
  }

  struct Attended {
    std::vector<std::uint16_t> y;
    std::vector<std::uint16_t> rest;
  };
  struct Result : Attended {
    Cells keys;
    Cells values;
  };

  Result attend(const World& world, const std::vector<Stretch>& runs, unsigned launches = 1) {
    const Shape& shape = world.shape_;
    const std::vector<Token> tokens = tokens_of(runs);
    const auto count = static_cast<std::uint32_t>(tokens.size());
    const std::uint32_t stride = shape.columns() + 2 * shape.kv_heads * shape.head_size;
    std::vector<float> q(std::size_t{count + 2} * stride);
    std::vector<std::int32_t> positions(count + 2);
    std::vector<std::int32_t> slots(count + 2);
    std::vector<std::uint32_t> from(world.lengths_.size());
    std::vector<std::uint32_t> to(world.lengths_.size());
    for (const Stretch& run : runs) {
      from[run.slot] = shape.first(run.first);
      to[run.slot] = run.last + 1;
    }
    for (std::uint32_t row = 0; row < count; ++row) {
      const auto query = world.query(tokens[row]);
      std::copy(query.begin(), query.end(), &q[std::size_t{row} * stride]);
      positions[row] = static_cast<std::int32_t>(tokens[row].position);
      slots[row] = static_cast<std::int32_t>(tokens[row].slot);
    }
    Cells keys = world.cells(1, from, to);
    Cells values = world.cells(2, from, to);
    const Buffer<unsigned char> key_buffer = buffer(keys.bytes());
    const Buffer<unsigned char> value_buffer = buffer(values.bytes());
    const Buffer<std::int32_t> tables = buffer(world.tables_.pages);
    const Buffer<float> q_buffer = buffer(q);
    const Buffer<std::int32_t> position_buffer = buffer(positions);
    const Buffer<std::int32_t> slot_buffer = buffer(slots);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({count});
    const Buffer<std::uint16_t> y =
        buffer(std::vector<std::uint16_t>(std::size_t{count + 2} * shape.columns(), kUntouched));
    const Buffer<std::uint16_t> rest = buffer(y.read());
    MixedAttentionArgs args{};
    args.q = q_buffer.data();
    args.q_stride = stride;
    args.heads = shape.heads;
    args.rows = {counts.data(), count + 2};
    args.positions = position_buffer.data();
    args.slots = slot_buffer.data();
    args.slot_count = static_cast<std::uint32_t>(world.lengths_.size());
    args.scale = world.scale();
    args.window = shape.window;
    args.kv = {key_buffer.data(),    value_buffer.data(), tables.data(),
               world.tables_.stride, shape.page_size,     shape.kv_heads,
               shape.head_size,      shape.type,          shape.same_bits};
    const Buffer<unsigned char> workspace =
        buffer(std::vector<unsigned char>(kernels::attention_workspace_bytes(
            args.slot_count, shape.heads, args.kv, shape.window, 256)));
    args.workspace = workspace.data();
    args.y = y.data();
    args.y_rest = rest.data();
    const auto& kernel = kernels::mixed_attention(args);
    const unsigned processors = device().processors();
    for (unsigned launch = 0; launch < launches; ++launch)
      stream().kernel(kernel, kernels::grid_of(args, is_cuda(), processors), args);
    stream().synchronize();
    return {{y.read(), rest.read()}, std::move(keys), std::move(values)};
  }

  /// The result of a mixed step's row in a decode step of the given capacity, in the form of
  /// `row_of`. That step applies no RoPE, and the new key and value are in qkv.
  std::vector<std::uint16_t> decoded(const World& world, const Token& token, const Result& mixed,
                                     std::uint32_t room) {
    const Shape& shape = world.shape_;
    std::vector<float> qkv = world.query(token);
    for (const Cells* cells : {&mixed.keys, &mixed.values})
      for (std::uint32_t head = 0; head < shape.kv_heads; ++head) {
        const float* element = cells->at(world.offset(token.slot, token.position, head));
        qkv.insert(qkv.end(), element, element + shape.head_size);
      }
    std::vector<std::int32_t> numbers(room);
    numbers[0] = static_cast<std::int32_t>(token.position);
    const Buffer<std::int32_t> positions = buffer(numbers);
    numbers[0] = static_cast<std::int32_t>(token.slot);
    const Buffer<std::int32_t> slots = buffer(numbers);
    const Buffer<float> x = buffer(qkv);
    const Buffer<unsigned char> keys = buffer(mixed.keys.bytes());
    const Buffer<unsigned char> values = buffer(mixed.values.bytes());
    const Buffer<std::int32_t> tables = buffer(world.tables_.pages);
    const Buffer<std::uint32_t> counts = buffer<std::uint32_t>({1});
    const Buffer<std::uint16_t> y =
        buffer(std::vector<std::uint16_t>(std::size_t{room} * shape.columns()));
    const Buffer<std::uint16_t> rest = buffer(y.read());
    kernels::DecodeAttentionArgs args{};
    args.qkv = x.data();
    args.rows = {counts.data(), room};
    args.positions = positions.data();
    args.slots = slots.data();
    args.slot_count = std::max(room, static_cast<std::uint32_t>(world.lengths_.size()));
    args.heads = shape.heads;
    args.scale = world.scale();
    args.window = shape.window;
    args.kv = {keys.data(),          values.data(),   tables.data(),
               world.tables_.stride, shape.page_size, shape.kv_heads,
               shape.head_size,      shape.type,      shape.same_bits};
    const Buffer<unsigned char> workspace =
        buffer(std::vector<unsigned char>(kernels::attention_workspace_bytes(
            args.slot_count, shape.heads, args.kv, shape.window, 8)));
    args.workspace = workspace.data();
    args.y = y.data();
    args.y_rest = rest.data();
    stream().kernel(kernels::decode_attention(args), kernels::grid_of(args, is_cuda(), 8), args);
    stream().synchronize();
    return row_of({y.read(), rest.read()}, shape, 0);
  }
  /// y of a row, then the remainder of its rounding.
  static std::vector<std::uint16_t> row_of(const Attended& result, const Shape& shape,
                                           std::size_t row) {
    std::vector<std::uint16_t> bits;
    for (const auto* from : {&result.y, &result.rest}) {
      const std::uint16_t* first = from->data() + row * shape.columns();
      bits.insert(bits.end(), first, first + shape.columns());
    }
    return bits;
  }

  /// y is rounded to bf16. With the remainder of that rounding it is nearly exact, because queries,
  /// weights and floats are each multiplied as two 16-bit numbers. With fixed splits weights are
  /// rounded to 16 bits, each by up to 2^-9 or 2^-12 of it.
  static void expect_attended(const World& world, const std::vector<Stretch>& runs,
                              const Result& result) {
    const Shape& shape = world.shape_;
    const std::vector<Token> tokens = tokens_of(runs);
    const std::uint32_t group = shape.heads / shape.kv_heads;
    const bool is_fixed = shape.same_bits && shape.type != KvType::f32;
    const double error = !is_fixed ? 1e-4 : shape.type == KvType::bf16 ? 4e-3 : 6e-4;
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const Token& token = tokens[row];
      const auto queries = world.query(token);
      for (std::uint32_t head = 0; head < shape.heads; ++head) {
        const float* q = &queries[head * shape.head_size];
        const Seen seen =
            seen_by(std::vector<double>(q, q + shape.head_size), world.scale(),
                    shape.first(token.position), token.position, result.keys, result.values,
                    [&](std::uint32_t at) { return world.offset(token.slot, at, head / group); });
        for (std::uint32_t i = 0; i < shape.head_size; ++i) {
          const std::size_t at = row * shape.columns() + head * shape.head_size + i;
          const double y = kernels::float_of_bfloat(result.y[at]);
          ASSERT_NEAR(y, seen.sum[i], std::abs(y) / 250 + seen.magnitude[i] * error + 1e-6);
          ASSERT_NEAR(y + kernels::float_of_bfloat(result.rest[at]), seen.sum[i],
                      seen.magnitude[i] * error + 1e-6)
              << "head size " << shape.head_size << ", type " << static_cast<int>(shape.type)
              << ", window " << shape.window << ", slot " << token.slot << ", position "
              << token.position << ", head " << head << ", element " << i;
        }
      }
    }
    for (std::size_t i = tokens.size() * shape.columns(); i < result.y.size(); ++i)
      ASSERT_EQ(result.y[i], kUntouched) << "a row that is not real";
  }
  void expect_right(const World& world, const std::vector<Stretch>& runs) {
    expect_attended(world, runs, attend(world, runs));
  }
};
ATTACCA_ON_EACH_DEVICE(MixedAttention);

/// Decode, a whole prompt, the middle of one, two rows, and decode far on.
const std::vector<Stretch> kMixed{{0, 40, 40}, {3, 0, 36}, {1, 61, 99}, {4, 15, 16}, {2, 300, 300}};
const std::vector<std::uint32_t> kLengths{41, 110, 301, 37, 17};

TEST_P(MixedAttention, every_head_size_and_type_agrees_with_doubles) {
  for (const auto& [type, same_bits] : ways())
    for (const std::uint32_t size : {16u, 24u, 64u, 80u, 96u, 128u, 256u}) {
      const World world({size, 4, 2, type, 0, 16, same_bits}, {70, 20});
      expect_right(world, {{0, 61, 69}, {1, 19, 19}});
    }
}

TEST_P(MixedAttention, any_number_of_heads_shares_a_kv_head) {
  for (const auto& [heads, kv_heads] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {2, 2}, {6, 2}, {4, 1}, {16, 2}, {7, 1}, {40, 1}, {64, 1}})
    for (const bool same_bits : {false, true}) {
      const World world({16, heads, kv_heads, types().back(), 0, 16, same_bits}, kLengths);
      expect_right(world, kMixed);
    }
}

TEST_P(MixedAttention, a_window_hides_what_lies_further_back) {
  for (const auto& [type, same_bits] : ways())
    for (const std::uint32_t window : {1u, 5u, 16u, 17u, 40u, 100u}) {
      const World world({16, 3, 1, type, window, 16, same_bits}, kLengths);
      expect_right(world, kMixed);
    }
}

TEST_P(MixedAttention, long_prompts_walk_over_many_pages_and_counters_count_again) {
  for (const auto& [type, same_bits] : ways()) {
    const World world({16, 2, 1, type, 0, 16, same_bits}, {1400, 1100});
    const std::vector<Stretch> runs{{0, 1370, 1399}, {1, 1099, 1099}};
    const Result once = attend(world, runs);
    expect_attended(world, runs, once);
    EXPECT_EQ(attend(world, runs, 3).y, once.y) << "after three launches";
  }
}

TEST_P(MixedAttention, a_row_with_neighbours_is_the_same_bits_in_any_chunk_batch_and_page_size) {
  for (const auto& [type, same_bits] : ways()) {
    Shape shape{48, 6, 2, type, 0, 16, same_bits};
    const World world(shape, kLengths);
    const auto y = attend(world, kMixed).y;
    for (const std::uint32_t page_size : {32u, 64u}) {
      shape.page_size = page_size;
      EXPECT_EQ(attend(World(shape, kLengths), kMixed).y, y) << "page size " << page_size;
    }
    // The prompt of slot 3, rows 1 to 37, in two steps and in another place of a step.
    const std::size_t columns = shape.columns();
    const auto rows = [&](const std::vector<std::uint16_t>& from, std::size_t first,
                          std::size_t count) {
      return std::vector<std::uint16_t>(
          from.begin() + static_cast<std::ptrdiff_t>(first * columns),
          from.begin() + static_cast<std::ptrdiff_t>((first + count) * columns));
    };
    EXPECT_EQ(rows(attend(world, {{3, 0, 20}}).y, 0, 21), rows(y, 1, 21));
    EXPECT_EQ(rows(attend(world, {{1, 5, 6}, {3, 21, 36}}).y, 2, 16), rows(y, 22, 16));
    EXPECT_EQ(rows(attend(world, {{2, 300, 300}}).y, 0, 1), rows(y, 79, 1));
  }
}

TEST_P(MixedAttention, a_row_alone_in_its_slot_is_the_same_bits_as_in_a_decode_step) {
  for (const KvType type : types()) {
    const World world({80, 12, 1, type}, {701, 40});
    const Result mixed = attend(world, {{0, 700, 700}, {1, 20, 39}});
    // The capacity leaves room for others: else the row would be split into smaller parts.
    EXPECT_EQ(row_of(mixed, world.shape_, 0), decoded(world, {0, 700}, mixed, 3));
  }
}

TEST_P(MixedAttention, with_the_same_bits_a_row_is_as_alone_beside_neighbours_and_in_any_cut) {
  const auto expect_same = [&](const Shape& shape, std::uint32_t first, std::uint32_t last) {
    const World world(shape, {last + 1, 30});
    const Result all = attend(world, {{0, first, last}});
    for (std::uint32_t at = first; at <= last; at += 7) {
      SCOPED_TRACE("head size " + std::to_string(shape.head_size) + ", type " +
                   std::to_string(static_cast<int>(shape.type)) + ", window " +
                   std::to_string(shape.window) + ", position " + std::to_string(at));
      const auto bits = row_of(all, shape, at - first);
      ASSERT_EQ(row_of(attend(world, {{0, at, at}}), shape, 0), bits);
      for (const std::uint32_t room : {1u, 3u, 40u})
        ASSERT_EQ(decoded(world, {0, at}, all, room), bits) << "a step with room for " << room;
      // The end of a prompt whose start was cached or came in an earlier step, behind another one.
      if (at + 1 < last) {
        ASSERT_EQ(row_of(attend(world, {{1, 3, 29}, {0, at, last}}), shape, 27), bits);
      }
    }
  };
  if (!is_cuda()) {  // a reference in doubles, and slow
    Shape shape{16, 12, 1, KvType::f32};
    shape.same_bits = true;
    return expect_same(shape, 590, 639);
  }
  for (const KvType type : types())
    for (const std::uint32_t size : {16u, 64u, 80u, 96u, 128u, 256u}) {
      Shape shape{size, 12, 1, type};
      shape.same_bits = true;
      expect_same(shape, 590, 639);
    }
  // Rows that see one position, splits of several sizes, windows that begin inside a split, and
  // more heads than a block computes at once.
  Shape shape{64, 4, 2, types().back()};
  shape.same_bits = true;
  expect_same(shape, 0, 20);
  expect_same(shape, 2'010, 2'060);
  expect_same(shape, 4'080, 4'110);
  for (const std::uint32_t window : {1u, 100u, 300u, 2'100u}) {
    shape.window = window;
    expect_same(shape, 2'290, 2'320);
  }
  for (const std::uint32_t size : {64u, 256u}) {
    Shape wide{size, 64, 1, KvType::bf16};
    wide.same_bits = true;
    expect_same(wide, 120, 140);
  }
}

TEST_P(MixedAttention, with_the_same_bits_pages_of_every_size_give_them) {
  for (const KvType type : types())
    for (const std::uint32_t size : {64u, 128u, 256u}) {
      Shape shape{size, 4, 2, type};
      shape.same_bits = true;
      const std::vector<Stretch> runs{{0, 250, 290}, {1, 140, 140}};
      const std::vector<std::uint32_t> lengths{291, 141};
      const Result right = attend(World(shape, lengths), runs);
      for (const std::uint32_t page_size : {32u, 64u}) {
        shape.page_size = page_size;
        const Result other = attend(World(shape, lengths), runs);
        EXPECT_EQ(other.y, right.y) << "head size " << size << ", page size " << page_size;
        EXPECT_EQ(other.rest, right.rest) << "head size " << size << ", page size " << page_size;
      }
    }
}

TEST_P(MixedAttention, many_rows_of_many_slots) {
  std::vector<Stretch> runs;
  std::vector<std::uint32_t> lengths;
  for (std::uint32_t slot = 0; slot < 300; ++slot) {
    const std::uint32_t rows = slot % 3 == 0 ? 1 : slot % 3 == 1 ? 9 : 2;
    runs.push_back({slot, slot, slot + rows - 1});
    lengths.push_back(slot + rows);
  }
  const World world({8, 4, 4, types().back()}, lengths);
  expect_right(world, runs);
}

TEST_P(MixedAttention, a_step_without_rows_writes_nothing) {
  const World world({16, 2, 1, types().back()}, {5});
  EXPECT_EQ(attend(world, {}).y, std::vector<std::uint16_t>(64, kUntouched));
}

TEST(MixedAttentionGrid, shapes_that_it_does_not_know_are_refused) {
  const std::uint32_t count = 1;
  MixedAttentionArgs args{};
  args.heads = 9;
  args.q_stride = 960;
  args.rows = {&count, 1};
  args.kv.kv_heads = 3;
  args.kv.head_size = 64;
  args.kv.page_size = 16;
  args.kv.table_stride = 64;
  const auto message = [&](bool is_cuda) -> std::string {
    try {
      kernels::grid_of(args, is_cuda, 132);
      return "";
    } catch (const BadArgument& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message(true), "");
  EXPECT_EQ(kernels::mixed_attention(args).cost(args).flops, 4.0 * 9 * 64 * 512);
  args.kv.head_size = 264;
  EXPECT_NE(message(true).find("head size 264"), std::string::npos);
  args.kv.head_size = 64;
  args.kv.page_size = 8;
  EXPECT_NE(message(true).find("page size 8"), std::string::npos);
  args.kv.page_size = 16;
  args.heads = 66 * 3;
  EXPECT_NE(message(true).find("198 heads cannot share 3 kv heads"), std::string::npos);
  args.heads = 9;
  args.q_stride = 961;
  EXPECT_NE(message(true).find("961 floats"), std::string::npos);
  args.q_stride = 960;
  args.kv.type = KvType::fp8;
  EXPECT_EQ(message(true), "");
  EXPECT_NE(message(false).find("f32 only"), std::string::npos);
}

}  // namespace
}  // namespace attacca::test::mixed_attention_test
